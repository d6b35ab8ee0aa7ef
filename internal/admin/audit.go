package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"llmgw/internal/changes"
	"llmgw/internal/tenant"
)

// auditBody is an entry as operators see it.
type auditBody struct {
	ID     string          `json:"id"`
	Time   time.Time       `json:"time"`
	By     string          `json:"by"`
	Action changes.Action  `json:"action"`
	Target string          `json:"target"`
	Team   string          `json:"team,omitempty"`
	From   json.RawMessage `json:"from"`
	To     json.RawMessage `json:"to"`
	Reason string          `json:"reason,omitempty"`
}

// How many entries a page of the audit has, unless it is said, and at most.
const (
	auditPage = 100
	maxPage   = 1000
)

// audit lists who changed what, the newest first.
func (h *handler) audit(w http.ResponseWriter, r *http.Request, who Account) {
	query := r.URL.Query()
	limit := auditPage
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			badRequest(w, "limit is %.20q, not a number from 1 to %d.", text, maxPage)
			return
		}
		limit = n
	}
	all := h.config.Changes.State().Audit()
	next := len(all)
	if text := query.Get("cursor"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > len(all) {
			badRequest(w, "cursor is not one that this list has given.")
			return
		}
		next = n
	}
	answer := struct {
		Audit []auditBody `json:"audit"`
		Next  string      `json:"next_cursor,omitempty"`
	}{Audit: []auditBody{}}
	for next--; next >= 0; next-- {
		e := all[next]
		if who.bound() && (e.Team == "" || !who.has(e.Team)) || query.Get("team") != "" && e.Team != query.Get("team") {
			continue
		}
		if len(answer.Audit) == limit {
			answer.Next = strconv.Itoa(next + 1)
			break
		}
		answer.Audit = append(answer.Audit, auditBody{e.ID, e.Time, e.By, e.Action, e.Target, e.Team, orNull(e.From), orNull(e.To), e.Reason})
	}
	reply(w, http.StatusOK, answer)
}

func orNull(text json.RawMessage) json.RawMessage {
	if len(text) == 0 {
		return json.RawMessage("null")
	}
	return text
}

// note puts into the audit what was done elsewhere.
func (h *handler) note(ctx context.Context, e changes.Entry) {
	if h.config.Changes != nil {
		_ = h.config.Changes.Note(ctx, e) // the log takes it with a later refresh
	}
}

// teamOf is the team that b keeps out alone, or a key of it; empty: neither.
func (h *handler) teamOf(b tenant.Block) string {
	switch b.Scope {
	case tenant.BlockTeam:
		return b.Value
	case tenant.BlockKey:
		for _, t := range h.config.Teams() {
			for _, k := range t.Keys {
				if k.ID == b.Value {
					return t.Name
				}
			}
		}
	}
	return ""
}
