package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/changes"
	"llmgw/internal/fault"
)

// errOtherTeam says that what was asked for belongs to another team.
var errOtherTeam = errors.New("admin: of another team")

// conflictError is answered with 409.
type conflictError struct{ message string }

func (e *conflictError) Error() string { return e.message }

func conflict(format string, args ...any) error { return &conflictError{fmt.Sprintf(format, args...)} }

// named is a limit that an operator named, the counter of it that is meant, and
// whose it is.
type named struct {
	limit *budget.Limit // in force for all its counters
	value string        // empty: all of them
	team  string        // empty: no team's
}

// by is the name that the operator used.
func (n named) by() string {
	if n.limit.Scope == budget.Model && n.value != "" {
		return string(budget.Model) + "/" + n.value + "/" + n.limit.Name
	}
	return n.limit.By()
}

// inForce is the limit for the counter that is meant.
func (n named) inForce() *budget.Limit { return n.limit.For(n.value) }

func (n named) name() changes.Limit { return changes.NameOf(n.limit, n.value) }

// find returns the limit that is called by as X-LLMGW-Limited-By calls it, for the
// counter of value. r's team picks one of several teams that have such a limit.
func (h *handler) find(r *http.Request, who Account, by, value string) (named, error) {
	team := r.URL.Query().Get("team")
	var all []named
	add := func(limits []*budget.Limit, of string) {
		for _, l := range limits {
			if n, ok := meant(l, by, value); ok && (team == "" || of == team) {
				n.team = of
				all = append(all, n)
			}
		}
	}
	for _, t := range h.config.Teams() {
		add(ownLimits(t), t.Name)
	}
	if h.config.Common != nil {
		add(h.config.Common(), "")
	}
	own := slices.DeleteFunc(slices.Clone(all), func(n named) bool { return who.bound() && (n.team == "" || !who.has(n.team)) })
	switch {
	case who.bound() && len(own) == 0:
		return named{}, errOtherTeam
	case len(own) == 0:
		return named{}, &fault.Error{Code: fault.NotFound, Message: fmt.Sprintf("There is no limit %.200q.", by)}
	case len(own) > 1:
		return named{}, fault.Invalid("team", fmt.Sprintf("Several limits are called %q: add ?team= to the path.", by))
	case own[0].value != "" && own[0].limit.Single():
		return named{}, fault.Invalid("value", fmt.Sprintf("The limit %q has one counter: leave value out.", by))
	}
	return own[0], nil
}

// meant reports whether l is called by, and which of its counters is meant.
func meant(l *budget.Limit, by, value string) (named, bool) {
	if l.By() == by {
		return named{limit: l, value: value}, true
	}
	if l.Scope != budget.Model || l.Single() {
		return named{}, false
	}
	model, ok := strings.CutPrefix(by, string(budget.Model)+"/")
	if model, ok2 := strings.CutSuffix(model, "/"+l.Name); ok && ok2 && model != "" {
		return named{limit: l, value: cmp.Or(value, model)}, true
	}
	return named{}, false
}

// failChange answers with an error of a change.
func (h *handler) failChange(w http.ResponseWriter, r *http.Request, who Account, err error) {
	if errors.Is(err, errOtherTeam) {
		h.forbidTeam(w, r, who)
		return
	}
	h.fail(w, err)
}

// amountText is an amount as an operator writes it: 400000, 0.5 or "400k".
type amountText string

// UnmarshalJSON implements json.Unmarshaler.
func (a *amountText) UnmarshalJSON(src []byte) error {
	var number json.Number
	if err := json.Unmarshal(src, &number); err == nil && len(src) > 0 && src[0] != '"' {
		*a = amountText(number)
		return nil
	}
	var text string
	if err := json.Unmarshal(src, &text); err != nil {
		return errors.New("amount is neither a number nor a text such as 400k")
	}
	*a = amountText(text)
	return nil
}

// amount reads a in the unit of l.
func (h *handler) amount(l *budget.Limit, a amountText) (int64, error) {
	if a == "" {
		return 0, fault.Invalid("amount", "amount is wanted.")
	}
	n, err := h.config.Amount(l.Unit, string(a))
	if err != nil {
		return 0, fault.Invalid("amount", fmt.Sprintf("amount: %.40q %s.", string(a), err))
	}
	return n, nil
}

func checkReason(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return fault.Invalid("reason", "reason is wanted: the audit shows it.")
	case len(reason) > maxNote:
		return fault.Invalid("reason", fmt.Sprintf("reason is longer than %d bytes.", maxNote))
	}
	return nil
}

// overrideBody is an override as operators see it.
type overrideBody struct {
	Limit      string    `json:"limit"`
	Value      string    `json:"value,omitempty"`
	Team       string    `json:"team,omitempty"`
	Amount     quantity  `json:"amount"`
	Configured quantity  `json:"configured"`
	Until      time.Time `json:"until"`
	Reason     string    `json:"reason"`
}

func overrideBodyOf(n named, o changes.Override) overrideBody {
	u := n.limit.Unit
	return overrideBody{n.by(), n.value, n.team, quantityOf(u, o.Amount), quantityOf(u, n.limit.FromFile()), o.Until, o.Reason}
}

// limitsOf lists the limits that who may change, with the team of each.
func (h *handler) limitsOf(who Account) []named {
	var all []named
	for _, t := range h.teamsOf(who) {
		for _, l := range ownLimits(t) {
			all = append(all, named{limit: l, team: t.Name})
		}
	}
	if h.config.Common != nil && !who.bound() {
		for _, l := range h.config.Common() {
			all = append(all, named{limit: l})
		}
	}
	return all
}

// limitOf is the one of all that name means, and whether there is one.
func limitOf(all []named, name changes.Limit) (named, bool) {
	i := slices.IndexFunc(all, func(n named) bool { return n.limit.Place == name.Place && n.limit.Name == name.Name })
	if i < 0 {
		return named{}, false
	}
	n := all[i]
	n.value = name.Value
	return n, true
}

// listOverrides lists the overrides in force, the first to end first.
func (h *handler) listOverrides(w http.ResponseWriter, _ *http.Request, who Account) {
	all, list := h.limitsOf(who), []overrideBody{}
	for _, o := range h.config.Changes.State().Overrides(h.config.Now()) {
		if n, ok := limitOf(all, o.Limit); ok {
			list = append(list, overrideBodyOf(n, o))
		}
	}
	slices.SortFunc(list, func(a, b overrideBody) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Limit+a.Value, b.Limit+b.Value))
	})
	reply(w, http.StatusOK, map[string]any{"overrides": list})
}

// listCredits lists the credits in force, the newest first.
func (h *handler) listCredits(w http.ResponseWriter, _ *http.Request, who Account) {
	all, list := h.limitsOf(who), []creditBody{}
	for _, c := range h.config.Changes.State().Credits(h.config.Now()) {
		if n, ok := limitOf(all, c.Limit); ok {
			list = append(list, creditBodyOf(n.limit.Unit, c))
		}
	}
	slices.SortFunc(list, func(a, b creditBody) int { return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	reply(w, http.StatusOK, map[string]any{"credits": list})
}

func (h *handler) setOverride(w http.ResponseWriter, r *http.Request, who Account) {
	var q struct {
		Amount amountText `json:"amount"`
		Until  time.Time  `json:"until"`
		Reason string     `json:"reason"`
	}
	if !readJSON(w, r, maxBody, &q) {
		return
	}
	var answer overrideBody
	err := h.config.Changes.Make(r.Context(), func(s *changes.State) (*changes.Entry, error) {
		n, err := h.find(r, who, r.PathValue("limit"), r.URL.Query().Get("value"))
		if err != nil {
			return nil, err
		}
		o := changes.Override{Limit: n.name(), Until: q.Until.UTC(), Reason: q.Reason, Version: h.nextVersion(n.inForce())}
		if o.Amount, err = h.amount(n.limit, q.Amount); err != nil {
			return nil, err
		}
		if !q.Until.After(h.config.Now()) {
			return nil, fault.Invalid("until", "until is wanted: a time to come, such as 2026-11-29T18:00:00Z.")
		}
		if err := cmp.Or(checkReason(q.Reason), countable(n.limit, o.Amount)); err != nil {
			return nil, err
		}
		answer = overrideBodyOf(n, o)
		e := &changes.Entry{
			By: who.Name, Action: changes.OverrideSet, Target: n.by(), Team: n.team, Reason: q.Reason, To: asJSON(answer), Override: &o,
		}
		if before := s.AmountOf(n.name(), n.limit.FromFile(), 0, h.config.Now().UnixMilli()).Override; before != nil {
			e.From = asJSON(overrideBodyOf(n, *before))
		}
		return e, nil
	})
	if err != nil {
		h.failChange(w, r, who, err)
		return
	}
	reply(w, http.StatusOK, answer)
}

// countable returns what is wrong with another amount of l.
func countable(l *budget.Limit, amount int64) error {
	if amount > budget.MaxExact {
		return fault.Invalid("amount", "amount is more than can be counted.")
	}
	if err := budget.Validate(l.WithAmount(amount, l.Version)); err != nil {
		return fault.Invalid("amount", "The limit cannot have this amount: "+err.Error()+".")
	}
	return nil
}

// nextVersion orders a change behind what is in force.
func (h *handler) nextVersion(l *budget.Limit) int64 {
	return max(h.config.Now().UnixMilli(), l.Version+1)
}

func (h *handler) removeOverride(w http.ResponseWriter, r *http.Request, who Account) {
	err := h.config.Changes.Make(r.Context(), func(s *changes.State) (*changes.Entry, error) {
		n, err := h.find(r, who, r.PathValue("limit"), r.URL.Query().Get("value"))
		if err != nil {
			return nil, err
		}
		name := n.name()
		o := s.AmountOf(name, n.limit.FromFile(), 0, h.config.Now().UnixMilli()).Override
		if o == nil {
			return nil, &fault.Error{Code: fault.NotFound, Message: fmt.Sprintf("There is no override of the limit %q.", n.by())}
		}
		return &changes.Entry{
			By: who.Name, Action: changes.OverrideRemoved, Target: n.by(), Team: n.team, From: asJSON(overrideBodyOf(n, *o)),
			Limit: &name, Version: h.nextVersion(n.inForce()),
		}, nil
	})
	if err != nil {
		h.failChange(w, r, who, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// creditBody is a credit as operators see it.
type creditBody struct {
	ID        string    `json:"id"`
	Limit     string    `json:"limit"`
	Value     string    `json:"value,omitempty"`
	Amount    quantity  `json:"amount"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Reason    string    `json:"reason"`
}

func creditBodyOf(u budget.Unit, c changes.Credit) creditBody {
	return creditBody{c.ID, c.By, c.Limit.Value, quantityOf(u, c.Amount), c.From, c.ExpiresAt, c.Reason}
}

// creditRequest is what a credit is given by.
type creditRequest struct {
	Limit     string     `json:"limit"`
	Value     string     `json:"value"`
	Amount    amountText `json:"amount"`
	ExpiresAt *time.Time `json:"expires_at"`
	Reason    string     `json:"reason"`
}

func (h *handler) giveCredit(w http.ResponseWriter, r *http.Request, who Account) {
	var q creditRequest
	if !readJSON(w, r, maxBody, &q) {
		return
	}
	request := ""
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		request = hashOf(who.Name, key)
	}
	body := hashOf(string(asJSON(q)), r.URL.Query().Get("team"))
	var given creditBody
	err := h.config.Changes.Make(r.Context(), func(s *changes.State) (*changes.Entry, error) {
		n, err := h.find(r, who, q.Limit, q.Value)
		if err != nil {
			return nil, err
		}
		if c, repeated := s.Requested(request, h.config.Now()); request != "" && repeated {
			if c.Body != body {
				return nil, conflict("This Idempotency-Key was used for another credit.")
			}
			given = creditBodyOf(n.limit.Unit, c)
			return nil, nil
		}
		c, err := h.creditOf(n, q)
		if err != nil {
			return nil, err
		}
		c.Request, c.Body = request, body
		given = creditBodyOf(n.limit.Unit, c)
		return &changes.Entry{
			By: who.Name, Action: changes.CreditGiven, Target: n.by(), Team: n.team, Reason: q.Reason, To: asJSON(given), Credit: &c,
		}, nil
	})
	if err != nil {
		h.failChange(w, r, who, err)
		return
	}
	reply(w, http.StatusCreated, given)
}

// creditOf is the credit that q asks for. It ends with the period.
func (h *handler) creditOf(n named, q creditRequest) (changes.Credit, error) {
	now := h.config.Now().UTC().Truncate(time.Millisecond)
	l := n.inForce()
	if l.Algorithm != budget.CalendarUsage {
		return changes.Credit{}, fault.Invalid("limit", fmt.Sprintf("The limit %q is no calendar budget: override it instead.", n.by()))
	}
	amount, err := h.amount(l, q.Amount)
	if err != nil {
		return changes.Credit{}, err
	}
	_, ends := budget.PeriodAt(l, now)
	c := changes.Credit{
		ID: changes.NewCreditID(), Limit: n.name(), By: n.by(), Amount: amount, From: now, ExpiresAt: ends.UTC(), Reason: q.Reason,
		Version: h.nextVersion(l),
	}
	if q.ExpiresAt != nil {
		if !q.ExpiresAt.After(now) {
			return c, fault.Invalid("expires_at", "expires_at is in the past.")
		}
		if q.ExpiresAt.Before(ends) {
			c.ExpiresAt = q.ExpiresAt.UTC()
		}
	}
	return c, cmp.Or(checkReason(q.Reason), countable(l, l.Amount+amount))
}

// hashOf is the hash of texts, each of which may be anything.
func hashOf(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// limitAction does what the end of the path says to the limit before it: reset.
func (h *handler) limitAction(w http.ResponseWriter, r *http.Request, who Account) {
	by, ok := strings.CutSuffix(r.PathValue("limit"), "/reset")
	if !ok {
		notFound(w, fmt.Sprintf("There is nothing at %s.", r.URL.Path))
		return
	}
	var q struct {
		Reason string `json:"reason"`
	}
	if !readJSON(w, r, maxBody, &q) {
		return
	}
	var n named
	err := h.config.Changes.Make(r.Context(), func(*changes.State) (*changes.Entry, error) {
		var err error
		if n, err = h.find(r, who, by, r.URL.Query().Get("value")); err != nil {
			return nil, err
		}
		if n.value == "" && !n.limit.Single() {
			return nil, fault.Invalid("value", fmt.Sprintf("The limit %q has a counter for each %s: add ?value= to the path.", n.by(), n.limit.Scope))
		}
		before, err := h.levelOf(r.Context(), n)
		if err != nil {
			return nil, err
		}
		return &changes.Entry{
			By: who.Name, Action: changes.LimitReset, Target: n.by(), Team: n.team, Reason: q.Reason, From: asJSON(before),
		}, checkReason(q.Reason)
	})
	if err == nil {
		err = h.config.Reset(r.Context(), budget.Line{Limit: n.inForce(), Value: n.value})
	}
	var after any
	if err == nil {
		after, err = h.levelOf(r.Context(), n)
	}
	if err != nil {
		h.failChange(w, r, who, err)
		return
	}
	reply(w, http.StatusOK, after)
}

// levelOf is what n's counter has now.
func (h *handler) levelOf(ctx context.Context, n named) (any, error) {
	l := n.inForce()
	states, _, err := h.config.Read(ctx, []budget.Line{{Limit: l, Value: n.value}})
	if err != nil {
		return nil, err
	}
	return struct {
		Limit     string   `json:"limit"`
		Value     string   `json:"value,omitempty"`
		Remaining quantity `json:"remaining"`
		Open      quantity `json:"open"`
	}{n.by(), n.value, quantityOf(l.Unit, states[0].Remaining), quantityOf(l.Unit, states[0].Open)}, nil
}
