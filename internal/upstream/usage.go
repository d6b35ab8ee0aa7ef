package upstream

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"llmgw/internal/dialect"
)

// Usage is asked for in streams whose client did not ask (stream_options). Some
// servers refuse the field. The call is then tried again without it, and once
// the calls of several teams were refused so, others are spared the refusal. No
// team alone changes how another's calls are metered.

const (
	// enoughTeams have to be refused before all calls go without the field.
	enoughTeams = 3
	// usageRefused is how long that is remembered; then the field is tried again.
	usageRefused = time.Hour
	// maxRefusals bounds the models of a provider that are told apart: only "*"
	// makes so many.
	maxRefusals = 1000
)

// usageKey is what may refuse the field: a model in one version of the API.
type usageKey struct{ model, version string }

// usageRefusal is what is known of one that does. Client.mu guards it.
type usageRefusal struct {
	teams map[string]bool // up to enoughTeams of those refused
	until time.Time
}

// usageKey is that of a try.
func (a attempt) usageKey(j *Job) usageKey {
	version := a.target.Provider.APIVersion
	if query, err := url.ParseQuery(j.Call.Query); err == nil {
		version = cmp.Or(version, query.Get("api-version"))
	}
	return usageKey{a.target.model(j), version}
}

// withoutUsage reports whether enough teams were refused the field.
func (c *Client) withoutUsage(a attempt, j *Job) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := a.state.refusals[a.usageKey(j)]
	return r != nil && len(r.teams) >= enoughTeams && time.Now().Before(r.until)
}

// remember notes that a target took a call without the field that it had refused
// with it. Until then that may have been for something else.
func (c *Client) remember(a attempt, j *Job) {
	k, now := a.usageKey(j), time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	r := a.state.refusals[k]
	if r == nil || !now.Before(r.until) {
		if len(a.state.refusals) >= maxRefusals {
			clear(a.state.refusals)
		}
		r = &usageRefusal{teams: map[string]bool{}, until: now.Add(usageRefused)}
		a.state.refusals[k] = r
	}
	if len(r.teams) >= enoughTeams || r.teams[j.Team] {
		return
	}
	r.teams[j.Team] = true
	if len(r.teams) == 1 || len(r.teams) == enoughTeams {
		c.log.Warn("the provider refuses stream_options: usage is counted here where it does; inject_usage: off spares the refusals",
			"provider", a.target.Provider.Name, "model", k.model, "teams", len(r.teams))
	}
}

// usageRejection is what an error says of the field.
type usageRejection int

const (
	otherFault   usageRejection = iota // it is about something else
	saidInWords                        // the message says so: good for this call alone
	saidInFields                       // fields that no client can fill say so
)

// rejectedUsage reports what an error says of the stream_options that were added
// to a call. Where the client sent such options itself the fault may be its own.
func rejectedUsage(status int, body []byte, call *dialect.Call) usageRejection {
	if status != http.StatusBadRequest && status != http.StatusUnprocessableEntity || !call.StreamOptions.Empty() {
		return otherFault
	}
	var doc struct {
		blame
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return otherFault
	}
	all := []blame{doc.blame}
	var inner blame
	if json.Unmarshal(doc.Error, &inner) == nil {
		all = append(all, inner)
	}
	var several []blame
	if json.Unmarshal(doc.Detail, &several) == nil {
		all = append(all, several...)
	}
	if slices.ContainsFunc(all, blame.names) {
		return saidInFields
	}
	// Azure's dated versions have no field for it. The whole message is compared,
	// since a part of one may be the client's.
	if text(inner.Message) == "Unrecognized request argument supplied: stream_options" {
		return saidInWords
	}
	return otherFault
}

// blame is where an error says that the fault is: OpenAI's param, or the loc of
// servers that are built on FastAPI.
type blame struct {
	Param   json.RawMessage `json:"param"`
	Loc     json.RawMessage `json:"loc"`
	Message json.RawMessage `json:"message"`
}

func (b blame) names() bool {
	at := text(b.Param)
	var path []string
	if json.Unmarshal(b.Loc, &path) == nil && len(path) > 0 {
		if path[0] == "body" {
			path = path[1:]
		}
		at = strings.Join(path, ".")
	}
	return at == "stream_options" || at == "stream_options.include_usage"
}
