package admin

import (
	"net/http"

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
	if !listParams(w, query, who, list{&f.Teams, &f.From, &f.To, &f.Limit}) {
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
