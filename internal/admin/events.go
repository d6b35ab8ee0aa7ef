package admin

import (
	"net/http"
	"time"

	"llmgw/internal/books"
)

var eventParams = []string{"team", "kind", "subject", "from", "to", "limit", "cursor"}

// events lists what happened to limits, newest first.
func (h *handler) events(w http.ResponseWriter, r *http.Request, who Account) {
	if h.config.Books == nil {
		notServed(w)
		return
	}
	query, ok := params(w, r, "events", eventParams)
	if !ok {
		return
	}
	f := books.FindEvents{Kind: query.Get("kind"), Subject: query.Get("subject"), Cursor: query.Get("cursor")}
	if query.Get("team") != "" {
		f.Teams = query["team"]
	}
	if who.bound() {
		f.Teams = teamsFor(who, f.Teams)
	}
	if f.From, ok = timeParam(w, query.Get("from"), "from", time.Time{}); !ok {
		return
	}
	if f.To, ok = timeParam(w, query.Get("to"), "to", time.Time{}); !ok {
		return
	}
	if !f.To.IsZero() && f.To.Before(f.From) {
		badRequest(w, "from must not be after to.")
		return
	}
	if f.Limit, ok = limitParam(w, query.Get("limit")); !ok {
		return
	}
	found, next, err := h.config.Books.Events(r.Context(), f)
	if err != nil {
		booksAway(w, err)
		return
	}
	if found == nil {
		found = []books.Event{}
	}
	reply(w, http.StatusOK, struct {
		Events []books.Event `json:"events"`
		Next   string        `json:"next_cursor,omitempty"`
	}{found, next})
}
