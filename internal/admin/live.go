package admin

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"llmgw/internal/books"
	"llmgw/internal/budget"
)

// Live is what this instance is at.
type Live struct {
	Instance  string     `json:"instance,omitempty"`
	Inflight  int        `json:"inflight"` // requests being handled
	Open      int        `json:"open"`     // reservations not yet settled in the store
	Waiting   int        `json:"waiting"`  // requests held by limits with on_exceed: wait
	Providers []Provider `json:"providers"`
	// Estimates are those of the models that are asked for most.
	Estimates []Estimates `json:"estimates,omitempty"`
}

// Estimates is how good and how costly the estimates of a model's requests were
// since the instance began.
type Estimates struct {
	Model   string  `json:"model"`
	Answers uint64  `json:"answers"` // that told their input
	Ratio   float64 `json:"ratio"`   // input used ÷ estimated, on the average; 0 without answers
	Seconds float64 `json:"seconds"` // that an estimate took, on the average
}

// Provider is what one provider is at.
type Provider struct {
	Name     string `json:"name"`
	State    string `json:"state"` // ok, paused, broken, refused, spent
	Waiting  int    `json:"waiting"`
	Inflight int    `json:"inflight"`
	// Headroom is what is left of the provider's limits.
	Headroom []Headroom `json:"headroom"`
}

// Headroom is what is left of one limit of a provider. Limit 0: not known.
type Headroom struct {
	Unit      string `json:"unit"`
	Remaining int64  `json:"remaining"`
	Limit     int64  `json:"limit"`
}

// liveBody is what the dashboard draws.
type liveBody struct {
	At          time.Time     `json:"at"`
	Status      string        `json:"status"`
	Enforcement string        `json:"enforcement,omitempty"`
	Live        Live          `json:"live"`
	Budgets     []budgetGroup `json:"budgets"`
	Series      *books.Series `json:"series,omitempty"`
	// Notices are the Config's.
	Notices []string `json:"notices,omitempty"`
	// Problems say what could not be had, in words.
	Problems []string `json:"problems,omitempty"`
}

// budgetGroup is a team's budgets, or those that all share.
type budgetGroup struct {
	Team   string      `json:"team"` // empty: shared
	Limits []limitBody `json:"limits"`
}

const (
	liveFreshFor = 900 * time.Millisecond // many pages share one reading
	liveTimeout  = 2 * time.Second
	// maxBudgets bounds how many counters are read for the dashboard.
	maxBudgets = 400
)

// liveCache keeps the last reading for all pages that ask within a second.
type liveCache struct {
	mu   sync.Mutex
	at   time.Time
	body liveBody
}

func (h *handler) liveJSON(w http.ResponseWriter, r *http.Request, who Account) {
	reply(w, http.StatusOK, h.liveNow(r.Context()).of(who))
}

// of is b with what who may see of the teams.
func (b liveBody) of(who Account) liveBody {
	if !who.bound() {
		return b
	}
	b.Budgets = slices.DeleteFunc(slices.Clone(b.Budgets), func(g budgetGroup) bool { return g.Team != "" && !who.has(g.Team) })
	if b.Series != nil {
		series := *b.Series
		series.Teams = slices.DeleteFunc(slices.Clone(series.Teams), func(t books.TeamSeries) bool { return !who.has(t.Team) })
		series.Refusals = series.Refusals[:0:0]
		for _, r := range b.Series.Refusals {
			if b.ofTeam(r.Limit) {
				series.Refusals = append(series.Refusals, r)
			}
		}
		b.Series = &series
	}
	return b
}

// ofTeam reports whether a team of b has the limit to itself: refusals of a limit
// that teams share do not say whose requests they were.
func (b liveBody) ofTeam(limitedBy string) bool {
	return slices.ContainsFunc(b.Budgets, func(g budgetGroup) bool {
		return g.Team != "" && slices.ContainsFunc(g.Limits, func(l limitBody) bool { return l.LimitedBy == limitedBy })
	})
}

func (h *handler) liveNow(ctx context.Context) liveBody {
	h.live.mu.Lock()
	defer h.live.mu.Unlock()
	now := h.config.Now()
	if age := now.Sub(h.live.at); age < 0 || age >= liveFreshFor {
		// One page's leaving must not spoil the reading of the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), liveTimeout)
		defer cancel()
		h.live.body, h.live.at = h.readLive(ctx), now
	}
	return h.live.body
}

// readLive gathers what it can get; what it cannot is a problem, not an error.
func (h *handler) readLive(ctx context.Context) liveBody {
	b := liveBody{At: h.config.Now().UTC(), Status: "ok", Budgets: []budgetGroup{}}
	trouble := func(what string, err error) { b.Problems = append(b.Problems, what+": "+err.Error()) }
	if h.config.Ready != nil {
		b.Status, _ = h.config.Ready()
	}
	if h.config.Live != nil {
		b.Live = h.config.Live()
	}
	if h.config.Notices != nil {
		b.Notices = h.config.Notices()
	}
	if b.Live.Providers == nil {
		b.Live.Providers = []Provider{}
	}
	if h.config.Enforcement != nil {
		mode, err := h.config.Enforcement.Mode(ctx)
		if err != nil {
			trouble("enforcement", err)
		}
		b.Enforcement = mode
	}
	if h.config.Read != nil {
		budgets, at, err := h.budgets(ctx)
		if err != nil {
			trouble("budgets", err)
		} else {
			b.Budgets, b.At = budgets, at
		}
	}
	if h.config.Books != nil {
		series, err := h.config.Books.Series(ctx)
		if err != nil {
			trouble("usage", err)
		} else {
			b.Series = &series
		}
	}
	return b
}

// budgets reads the limits with a level of their own: those that all share
// first, then each team's with its keys'.
func (h *handler) budgets(ctx context.Context) ([]budgetGroup, time.Time, error) {
	var names []string
	var groups [][]*budget.Limit
	room := maxBudgets
	group := func(name string, limits []*budget.Limit) {
		limits = slices.DeleteFunc(slices.Clone(limits), func(l *budget.Limit) bool { return !l.Single() })
		limits = limits[:min(len(limits), room)]
		room -= len(limits)
		if len(limits) > 0 {
			names, groups = append(names, name), append(groups, limits)
		}
	}
	if h.config.Common != nil {
		group("", h.config.Common())
	}
	if h.config.Teams != nil {
		for _, t := range h.config.Teams() {
			group(t.Name, ownLimits(t))
		}
	}
	levels, at, err := h.levels(ctx, slices.Concat(groups...))
	if err != nil {
		return nil, time.Time{}, err
	}
	out := make([]budgetGroup, 0, len(groups))
	for i, limits := range groups {
		out = append(out, budgetGroup{names[i], h.show(limits, levels)})
	}
	return out, at, nil
}
