package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"llmgw/internal/books"
	"llmgw/internal/budget"
	"llmgw/internal/changes"
	"llmgw/internal/tenant"
)

// quantity is an amount in a limit's unit: whole, but for dollars.
type quantity any

func quantityOf(u budget.Unit, n int64) quantity {
	if u == budget.USD {
		return books.Dollars(n)
	}
	return n
}

// limitBody is a limit as operators see it.
type limitBody struct {
	Scope string `json:"scope"`
	Owner string `json:"owner"`
	Name  string `json:"name"`
	Unit  string `json:"unit"`
	// Amount is in force, Configured is the file's: the file of another gateway may be newer.
	Amount     quantity       `json:"amount"`
	Configured quantity       `json:"configured"`
	Per        *budget.Period `json:"per"` // null: of concurrency
	Capacity   quantity       `json:"capacity"`
	// Its level, each null if there is a counter for every user, address or model.
	Remaining quantity `json:"remaining"`
	Open      quantity `json:"open"`
	ResetMS   *int64   `json:"reset_ms"`
	Mode      string   `json:"mode"`
	// Override is who put Amount in the place of Configured, and for how long. nil: nobody.
	Override *overrideNote `json:"override,omitempty"`
	// LimitedBy is what a refusal calls this limit.
	LimitedBy string `json:"limited_by"`
}

// overrideNote is what is said of an override beside its limit.
type overrideNote struct {
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

type teamBody struct {
	Name   string      `json:"name"`
	Models []string    `json:"models,omitempty"`
	Keys   []string    `json:"keys"`
	Limits []limitBody `json:"limits"`
	At     *time.Time  `json:"at,omitempty"` // the store's time of these levels; nil: the list's
}

// teams lists the teams with their own limits and their keys', as the store has
// them now.
func (h *handler) teams(w http.ResponseWriter, r *http.Request, who Account) {
	if h.config.Teams == nil || h.config.Read == nil {
		notServed(w)
		return
	}
	all := h.teamsOf(who)
	var limits []*budget.Limit
	for _, t := range all {
		limits = append(limits, ownLimits(t)...)
	}
	levels, at, err := h.levels(r.Context(), limits)
	if err != nil {
		storeAway(w, err)
		return
	}
	list := make([]teamBody, 0, len(all))
	for _, t := range all {
		list = append(list, teamBody{Name: t.Name, Models: models(t), Keys: keys(t), Limits: h.show(ownLimits(t), levels)})
	}
	reply(w, http.StatusOK, map[string]any{"teams": list, "at": at})
}

// team shows the limits that requests of one team draw on, read from the store
// now: the team's own, its keys', the gateway's, and those of models that it
// may use.
func (h *handler) team(w http.ResponseWriter, r *http.Request, who Account) {
	if h.config.Teams == nil || h.config.Read == nil {
		notServed(w)
		return
	}
	name := r.PathValue("team")
	if !who.has(name) {
		h.forbidTeam(w, r, who)
		return
	}
	all := h.config.Teams()
	i := slices.IndexFunc(all, func(t tenant.Team) bool { return t.Name == name })
	if i < 0 {
		notFound(w, fmt.Sprintf("There is no team %q.", name))
		return
	}
	team := all[i]
	limits := ownLimits(team)
	if h.config.Common != nil {
		for _, l := range h.config.Common() {
			if l.Scope != budget.Model || team.Allows(l.Owner) {
				limits = append(limits, l)
			}
		}
	}
	levels, at, err := h.levels(r.Context(), limits)
	if err != nil {
		storeAway(w, err)
		return
	}
	reply(w, http.StatusOK, teamBody{team.Name, models(team), keys(team), h.show(limits, levels), &at})
}

// Limits is what /admin/v1/teams/{team} says of limits, read from the store now. It
// becomes a JSON array. Of c the functions that read are used.
func Limits(ctx context.Context, c Config, limits []*budget.Limit) (any, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	h := &handler{config: c}
	levels, _, err := h.levels(ctx, limits)
	if err != nil {
		return nil, err
	}
	return h.show(limits, levels), nil
}

// readAtOnce bounds how many counters one reading of the store has: requests
// wait while it reads.
const readAtOnce = 500

// levels reads what limits have now, of those that have one counter. The time is
// that of the last reading.
func (h *handler) levels(ctx context.Context, limits []*budget.Limit) (map[*budget.Limit]budget.LineState, time.Time, error) {
	lines := []budget.Line{}
	for _, l := range limits {
		if l.Single() {
			lines = append(lines, budget.Line{Limit: l})
		}
	}
	levels := make(map[*budget.Limit]budget.LineState, len(lines))
	for {
		part := lines[:min(len(lines), readAtOnce)]
		lines = lines[len(part):]
		states, at, err := h.config.Read(ctx, part)
		if err != nil {
			return nil, time.Time{}, err
		}
		if len(states) != len(part) {
			return nil, time.Time{}, fmt.Errorf("the store returned %d levels of %d limits", len(states), len(part))
		}
		for i, line := range part {
			levels[line.Limit] = states[i]
		}
		if len(lines) == 0 {
			return levels, at.UTC(), nil
		}
	}
}

// show shows limits with their levels, the team's own first.
func (h *handler) show(limits []*budget.Limit, levels map[*budget.Limit]budget.LineState) []limitBody {
	rank := func(s budget.Scope) int { return slices.Index(scopeOrder, s) }
	limits = slices.Clone(limits)
	slices.SortStableFunc(limits, func(a, b *budget.Limit) int { return cmp.Compare(rank(a.Scope), rank(b.Scope)) })
	bodies := make([]limitBody, 0, len(limits))
	for _, l := range limits {
		b := describe(l)
		b.Override = h.overrideOf(l)
		if level, ok := levels[l]; ok {
			b.Amount = quantityOf(l.Unit, l.InForce(level).Amount)
			b.Capacity = quantityOf(l.Unit, level.Capacity)
			b.Remaining = quantityOf(l.Unit, level.Remaining)
			b.Open = quantityOf(l.Unit, level.Open)
			ms := (level.Reset + time.Millisecond - 1).Milliseconds()
			b.ResetMS = &ms
		}
		bodies = append(bodies, b)
	}
	return bodies
}

// overrideOf is the override of all counters of l; nil: there is none.
func (h *handler) overrideOf(l *budget.Limit) *overrideNote {
	if h.config.Changes == nil {
		return nil
	}
	o := h.config.Changes.State().AmountOf(changes.NameOf(l, ""), l.FromFile(), 0, h.config.Now().UnixMilli()).Override
	if o == nil {
		return nil
	}
	return &overrideNote{o.Until, o.Reason}
}

func describe(l *budget.Limit) limitBody {
	b := limitBody{
		Scope: string(l.Scope), Owner: l.Owner, Name: l.Name, Unit: string(l.Unit),
		Amount: quantityOf(l.Unit, l.Amount), Configured: quantityOf(l.Unit, l.FromFile()), Capacity: quantityOf(l.Unit, l.Capacity()),
		Mode: string(cmp.Or(l.Mode, budget.Enforce)), LimitedBy: l.By(),
	}
	if l.Period != "" {
		b.Per = &l.Period
	}
	return b
}

var scopeOrder = []budget.Scope{budget.Team, budget.Key, budget.Gateway, budget.Model, budget.Provider, budget.User, budget.IP}

// ownLimits are a team's limits and its keys'.
func ownLimits(t tenant.Team) []*budget.Limit {
	limits := slices.Clone(t.Limits)
	for _, k := range t.Keys {
		limits = append(limits, k.Limits...)
	}
	return limits
}

func keys(t tenant.Team) []string {
	ids := make([]string, 0, len(t.Keys))
	for _, k := range t.Keys {
		ids = append(ids, k.ID)
	}
	return ids
}

// models are those that a team may use; nil: all.
func models(t tenant.Team) []string { return names(t.Models) }

// names are those of a set; nil: all there are.
func names(set map[string]bool) []string {
	if set == nil {
		return nil
	}
	list := []string{}
	for name, may := range set {
		if may {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}
