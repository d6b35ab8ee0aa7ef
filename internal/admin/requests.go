package admin

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"llmgw/internal/books"
)

var requestParams = []string{"team", "key", "user", "session", "model", "outcome", "code", "from", "to", "limit", "cursor"}

// The bounds of a page.
const (
	usualPage   = 100
	longestPage = 1000
)

// requests lists single records, newest first.
func (h *handler) requests(w http.ResponseWriter, r *http.Request, who Account) {
	if h.config.Books == nil {
		notServed(w)
		return
	}
	query, ok := params(w, r, "requests", requestParams)
	if !ok {
		return
	}
	f := books.Find{
		Key: query.Get("key"), User: query.Get("user"), Session: query.Get("session"), Model: query.Get("model"),
		Outcome: query.Get("outcome"), Code: query.Get("code"), Cursor: query.Get("cursor"),
	}
	if !listParams(w, query, who, list{&f.Teams, &f.From, &f.To, &f.Limit}) {
		return
	}
	found, next, err := h.config.Books.Requests(r.Context(), f)
	if err != nil {
		booksAway(w, err)
		return
	}
	shown := make([]recordBody, len(found))
	for i := range found {
		if found[i].Tags == nil {
			found[i].Tags = map[string]string{}
		}
		shown[i] = recordBody{Record: &found[i]}
	}
	reply(w, http.StatusOK, struct {
		Requests []recordBody `json:"requests"`
		Next     string       `json:"next_cursor,omitempty"`
	}{shown, next})
}

// recordBody is a record without what only the single one shows.
type recordBody struct {
	*books.Record
	Tries  *struct{} `json:"tries,omitempty"`
	Limits *struct{} `json:"limits,omitempty"`
}

// list is what every list is asked for.
type list struct {
	teams    *[]string
	from, to *time.Time
	limit    *int
}

// listParams reads what is asked of a list, of the teams that who may see. It answers
// 400 itself, and then returns false.
func listParams(w http.ResponseWriter, query url.Values, who Account, into list) (ok bool) {
	if query.Get("team") != "" {
		*into.teams = query["team"]
	}
	if who.bound() {
		*into.teams = teamsFor(who, *into.teams)
	}
	if *into.from, ok = timeParam(w, query.Get("from"), "from", time.Time{}); !ok {
		return false
	}
	if *into.to, ok = timeParam(w, query.Get("to"), "to", time.Time{}); !ok {
		return false
	}
	if !into.to.IsZero() && into.to.Before(*into.from) {
		badRequest(w, "from must not be after to.")
		return false
	}
	*into.limit, ok = limitParam(w, query.Get("limit"))
	return ok
}

// limitParam reads the length of a page, or answers 400 itself.
func limitParam(w http.ResponseWriter, text string) (int, bool) {
	if text == "" {
		return usualPage, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > longestPage {
		badRequest(w, "limit is %.60q, not a number from 1 to %d.", text, longestPage)
		return 0, false
	}
	return n, true
}

// request shows one record, with its tries and its limits.
func (h *handler) request(w http.ResponseWriter, r *http.Request, who Account) {
	if h.config.Books == nil {
		notServed(w)
		return
	}
	var teams []string
	if who.bound() {
		teams = teamsFor(who, nil)
	}
	found, err := h.config.Books.Request(r.Context(), r.PathValue("id"), teams)
	switch {
	case errors.Is(err, books.ErrNoRecord):
		notFound(w, "There is no record of this request.")
	case err != nil:
		booksAway(w, err)
	default:
		if found.Tags == nil {
			found.Tags = map[string]string{}
		}
		if found.Tries == nil {
			found.Tries = []books.Try{}
		}
		if found.Limits == nil {
			found.Limits = []books.Limit{}
		}
		reply(w, http.StatusOK, struct {
			books.Record
			Tries  []books.Try   `json:"tries"`
			Limits []books.Limit `json:"limits"`
		}{found, found.Tries, found.Limits})
	}
}
