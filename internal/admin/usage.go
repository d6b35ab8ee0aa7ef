package admin

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"llmgw/internal/ledger"
)

// usageSpan is what is shown when nobody says from when.
const usageSpan = 24 * time.Hour

var usageParams = []string{"from", "to", "group_by"}

type usageBody struct {
	From time.Time    `json:"from"`
	To   time.Time    `json:"to"`
	Rows []ledger.Row `json:"rows"`
}

// usage adds up what was spent: by team and model, of the last day, unless the
// query says otherwise.
func (h *handler) usage(w http.ResponseWriter, r *http.Request, who Account) {
	if h.config.Usage == nil {
		notServed(w)
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // what is left out would be answered by a default
		badRequest(w, "The query is badly escaped.")
		return
	}
	for name := range query {
		if !slices.Contains(usageParams, name) { // one that is misspelt, too
			badRequest(w, "usage takes %s, not %q.", strings.Join(usageParams, ", "), name)
			return
		}
	}
	to, ok := timeParam(w, query.Get("to"), "to", h.config.Now())
	if !ok {
		return
	}
	from, ok := timeParam(w, query.Get("from"), "from", to.Add(-usageSpan))
	if !ok {
		return
	}
	if from.After(to) {
		badRequest(w, "from must not be after to.")
		return
	}
	groups, ok := groupsParam(w, query)
	if !ok {
		return
	}
	rows, err := h.usageOf(r.Context(), who, from, to, groups)
	if err != nil {
		storeAway(w, err)
		return
	}
	if rows == nil {
		rows = []ledger.Row{}
	}
	reply(w, http.StatusOK, usageBody{from, to, rows})
}

// usageOf is the usage of the teams that who may see.
func (h *handler) usageOf(ctx context.Context, who Account, from, to time.Time, groups []string) ([]ledger.Row, error) {
	if !who.bound() {
		return h.config.Usage(ctx, from, to, groups)
	}
	rows, err := h.config.Usage(ctx, from, to, []string{ledger.ByTeam, ledger.ByModel})
	if err != nil {
		return nil, err
	}
	return ledger.Group(slices.DeleteFunc(rows, func(row ledger.Row) bool { return !who.has(row.Team) }), groups), nil
}

// timeParam reads an RFC 3339 time, or answers 400 itself.
func timeParam(w http.ResponseWriter, text, name string, otherwise time.Time) (time.Time, bool) {
	if text == "" {
		return otherwise.UTC(), true
	}
	// A plus sign that was not escaped comes as a space.
	t, err := time.Parse(time.RFC3339, strings.Replace(text, " ", "+", 1))
	if err != nil {
		badRequest(w, "%s is %q, not a time such as 2026-11-29T18:00:00Z.", name, text)
		return time.Time{}, false
	}
	return t, true
}

// groupsParam reads what rows are grouped by, both where nothing is said, or
// answers 400 itself.
func groupsParam(w http.ResponseWriter, query url.Values) ([]string, bool) {
	if !query.Has("group_by") {
		return []string{ledger.ByTeam, ledger.ByModel}, true
	}
	var groups []string
	for by := range strings.SplitSeq(strings.Join(query["group_by"], ","), ",") {
		by = strings.TrimSpace(by)
		switch {
		case by == "" || slices.Contains(groups, by):
		case by == ledger.ByTeam || by == ledger.ByModel:
			groups = append(groups, by)
		default:
			badRequest(w, "group_by takes team and model, not %q.", by)
			return nil, false
		}
	}
	return groups, true
}
