package admin

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"llmgw/internal/books"
)

// usageSpan is what is shown when nobody says from when.
const usageSpan = 24 * time.Hour

var (
	usageFilters = []string{"team", "key", "user", "model", "provider", "outcome"}
	usageParams  = append(append([]string{"from", "to", "per", "timezone", "group_by"}, usageFilters...), "tag:NAME", "format")
)

// usage adds up what was spent: by team and model, of the last day, unless the
// query says otherwise.
func (h *handler) usage(w http.ResponseWriter, r *http.Request, who Account) {
	if h.config.Books == nil {
		notServed(w)
		return
	}
	query, ok := params(w, r, "usage", usageParams)
	if !ok {
		return
	}
	q, ok := h.usageQuery(w, query, who)
	if !ok {
		return
	}
	format := query.Get("format")
	if format != "" && format != "json" && format != "csv" {
		badRequest(w, "format is %.60q; it is json or csv.", format)
		return
	}
	rows, err := h.config.Books.Usage(r.Context(), q)
	if err != nil {
		booksAway(w, err)
		return
	}
	t := tableOf(q, rows)
	if format == "csv" {
		t.replyCSV(w)
		return
	}
	partial := h.config.Partial != nil && h.config.Partial()
	reply(w, http.StatusOK, struct {
		From    time.Time `json:"from"`
		To      time.Time `json:"to"`
		Partial bool      `json:"partial,omitempty"`
		Rows    table     `json:"rows"`
	}{q.From.UTC(), q.To.UTC(), partial, t})
}

// params reads a query whose names must be among those that are known; what
// begins with tag: stands for all tags. It answers 400 itself.
func params(w http.ResponseWriter, r *http.Request, what string, known []string) (url.Values, bool) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // what is left out would be answered by a default
		badRequest(w, "The query is badly escaped.")
		return nil, false
	}
	for name := range query {
		tag, isTag := strings.CutPrefix(name, "tag:")
		if !slices.Contains(known, name) && (!isTag || tag == "" || !slices.Contains(known, "tag:NAME")) { // one that is misspelt, too
			badRequest(w, "%s takes %s, not %.60q.", what, strings.Join(known, ", "), name)
			return nil, false
		}
	}
	return query, true
}

// usageQuery is what a query asks of the books, for the teams that who may see. It
// answers 400 itself.
func (h *handler) usageQuery(w http.ResponseWriter, query url.Values, who Account) (books.Query, bool) {
	q := books.Query{Per: query.Get("per"), Zone: time.UTC, Where: map[string][]string{}}
	if name := query.Get("timezone"); name != "" {
		zone, err := time.LoadLocation(name)
		if err != nil || name == "Local" {
			badRequest(w, "timezone is %.60q, not a zone such as UTC or Europe/Athens.", name)
			return q, false
		}
		q.Zone = zone
	}
	var ok bool
	if q.To, ok = timeParam(w, query.Get("to"), "to", h.config.Now()); !ok {
		return q, false
	}
	if q.From, ok = timeParam(w, query.Get("from"), "from", q.To.Add(-usageSpan)); !ok {
		return q, false
	}
	if q.From.After(q.To) {
		badRequest(w, "from must not be after to.")
		return q, false
	}
	for name, values := range query {
		if slices.Contains(usageFilters, name) || strings.HasPrefix(name, "tag:") {
			q.Where[name] = values
		}
	}
	if who.bound() {
		q.Where["team"] = teamsFor(who, query["team"])
	}
	q.GroupBy = groupsParam(query)
	return q, true
}

// teamsFor are the teams of those named, or of all, that who may see; never nil.
func teamsFor(who Account, named []string) []string {
	if len(named) == 0 {
		return slices.Clone(who.Teams)
	}
	return slices.DeleteFunc(slices.Clone(named), func(team string) bool { return !who.has(team) })
}

// timeParam reads an RFC 3339 time, or answers 400 itself.
func timeParam(w http.ResponseWriter, text, name string, otherwise time.Time) (time.Time, bool) {
	if text == "" {
		return otherwise.UTC(), true
	}
	// A plus sign that was not escaped comes as a space.
	t, err := time.Parse(time.RFC3339, strings.Replace(text, " ", "+", 1))
	if err != nil {
		badRequest(w, "%s is %.60q, not a time such as 2026-11-29T18:00:00Z.", name, text)
		return time.Time{}, false
	}
	return t, true
}

// groupsParam is what rows are grouped by, team and model where nothing is said.
func groupsParam(query url.Values) []string {
	if !query.Has("group_by") {
		return []string{"team", "model"}
	}
	var groups []string
	for by := range strings.SplitSeq(strings.Join(query["group_by"], ","), ",") {
		if by = strings.TrimSpace(by); by != "" && !slices.Contains(groups, by) {
			groups = append(groups, by)
		}
	}
	return groups
}

// booksAway answers what went wrong with the books.
func booksAway(w http.ResponseWriter, err error) {
	if bad, ok := errors.AsType[books.BadQuery](err); ok {
		badRequest(w, "%s.", string(bad))
		return
	}
	storeAway(w, err)
}

// table is rows with the names of their columns, in order.
type table struct {
	columns []string
	rows    [][]any
}

// tableOf writes rows as operators see them. The columns team and model are always
// there, empty where rows are not grouped by them.
func tableOf(q books.Query, rows []books.Row) table {
	var t table
	if q.Per != "" {
		t.columns = append(t.columns, "time")
	}
	groups := []string{"team", "model"}
	for _, name := range q.GroupBy {
		if !slices.Contains(groups, name) {
			groups = append(groups, name)
		}
	}
	t.columns = append(append(t.columns, groups...), "requests", "refused", "input_tokens", "cached_input_tokens", "cache_write_tokens",
		"output_tokens", "reasoning_tokens", "charged", "usd")
	for _, r := range rows {
		var row []any
		if q.Per != "" {
			row = append(row, r.Time.Format(time.RFC3339))
		}
		for _, name := range groups {
			value := ""
			if i := slices.Index(q.GroupBy, name); i >= 0 {
				value = r.Groups[i]
			}
			row = append(row, value)
		}
		t.rows = append(t.rows, append(row, r.Requests, r.Refused, r.Input, r.CachedInput, r.CacheWrite, r.Output, r.Reasoning, r.Charged, r.USD))
	}
	return t
}

// MarshalJSON implements json.Marshaler: an object each, its members in the order
// of the columns.
func (t table) MarshalJSON() ([]byte, error) {
	out := []byte{'['}
	for n, row := range t.rows {
		if n > 0 {
			out = append(out, ',')
		}
		for i, value := range row {
			name, _ := json.Marshal(t.columns[i]) // a text
			text, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			out = append(out, map[bool]byte{true: '{', false: ','}[i == 0])
			out = append(append(append(out, name...), ':'), text...)
		}
		out = append(out, '}')
	}
	return append(out, ']'), nil
}

// replyCSV writes t with a line of names. A text that a spreadsheet would take for
// a formula begins with an apostrophe.
func (t table) replyCSV(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	out := csv.NewWriter(w)
	line := func(row []any) {
		cells := make([]string, len(row))
		for i, value := range row {
			if text, ok := value.(string); ok {
				cells[i] = harmless(text)
				continue
			}
			cells[i] = fmt.Sprint(value)
		}
		_ = out.Write(cells) // the operator went away: there is nobody to answer
	}
	names := make([]any, len(t.columns))
	for i, name := range t.columns {
		names[i] = name
	}
	line(names)
	for _, row := range t.rows {
		line(row)
	}
	out.Flush()
}

// harmless is text that no spreadsheet takes for a formula.
func harmless(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}
