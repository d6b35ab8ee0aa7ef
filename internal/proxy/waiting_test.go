package proxy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/tenant"
	"llmgw/internal/upstream"
)

// slowly is a limit of one request a minute that lets the next wait.
func slowly() *budget.Limit {
	return &budget.Limit{
		Place: "team/t", Scope: budget.Team, Owner: "t", Name: "slowly", Unit: budget.Requests, Amount: 1, Period: budget.Minute, Burst: 1,
		Algorithm: budget.TokenBucket, Mode: budget.Enforce, Wait: true, MaxWait: 5 * time.Minute, WhenStoreDown: budget.Local, Version: 1,
	}
}

// teamWith is the house's team with other limits.
func teamWith(t *testing.T, limits ...*budget.Limit) *tenant.Directory {
	t.Helper()
	d, err := tenant.NewDirectory([]tenant.Team{{
		Name: "t", Weight: 1, Limits: limits, Keys: []tenant.Key{{ID: "k", SHA256: sha256.Sum256([]byte(houseKey))}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// limited is a house whose team has these limits.
func limited(t *testing.T, limits ...*budget.Limit) setting {
	return setting{rules: func(r *Rules) { r.Directory = teamWith(t, limits...) }}
}

// pacedBy is a house whose provider takes one call a minute.
var pacedBy = setting{provider: func(p *upstream.Provider) {
	p.Limits, p.MaxWait = upstream.Limits{RequestsPerMinute: 1}, 5*time.Minute
}}

const (
	shortAnswer = `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":1,"total_tokens":9}}`
	shortAsk    = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":10}`
)

func answers(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(shortAnswer)) // the gateway reads it or does not
}

// ends is an answer, and how long after t it came.
func (c *coming) ends(t time.Time) (answer, time.Duration) {
	a := c.rest()
	return a, time.Since(t)
}

// change puts a changed copy of the rules in force.
func (h *house) change(f func(*Rules)) {
	r := *h.Rules()
	f(&r)
	h.Replace(&r)
}

// Each event ends the wait at once: with an answer, or with a refusal that says
// what is the matter.
func TestWhatEndsAWaitEndsItAtOnce(t *testing.T) {
	limit := func(change func(*budget.Limit)) func(*house) {
		return func(h *house) {
			l := slowly()
			l.Version = 2
			change(l)
			h.change(func(r *Rules) { r.Directory = teamWith(t, l) })
		}
	}
	atLimit, atProvider := limited(t, slowly()), pacedBy
	for _, s := range []struct {
		what   string
		at     setting
		event  func(h *house)
		status int
		code   string
	}{
		{"the limit is raised", atLimit, limit(func(l *budget.Limit) { l.Amount, l.Burst = 1000, 1000 }), 200, ""},
		{"the limit is removed", atLimit, func(h *house) { h.change(func(r *Rules) { r.Directory = teamWith(t) }) }, 200, ""},
		{"the limit is in shadow", atLimit, limit(func(l *budget.Limit) { l.Mode = budget.Shadow }), 200, ""},
		{"the limit does not let it wait any more", atLimit, limit(func(l *budget.Limit) { l.Wait = false }), 429, "rate_limit_exceeded"},
		{"the limit lets it wait for less", atLimit, limit(func(l *budget.Limit) { l.MaxWait = time.Second }), 429, "rate_limit_exceeded"},
		{"enforcement is off", atLimit, func(h *house) { h.SetEnforcement(Off) }, 200, ""},
		{"enforcement is in shadow", atLimit, func(h *house) { h.SetEnforcement(Shadow) }, 200, ""},
		{"its team is blocked", atLimit, block, 403, "blocked"},
		{"its key is gone", atLimit, removeKey(t), 401, "invalid_api_key"},
		{"its model is taken away", atLimit, func(h *house) { h.change(func(r *Rules) { r.Models = nil }) }, 404, "model_not_found"},
		{"the gateway stops", atLimit, func(h *house) { h.StopWaiting(0) }, 503, "shutting_down"},

		{"at the provider: the limit is raised", atProvider, provider(func(p *upstream.Provider) { p.Limits.RequestsPerMinute = 60_000 }), 200, ""},
		{"at the provider: the limit is removed", atProvider, provider(func(p *upstream.Provider) { p.Limits = upstream.Limits{} }), 200, ""},
		{"at the provider: its team is blocked", atProvider, block, 403, "blocked"},
		{"at the provider: its key is gone", atProvider, removeKey(t), 401, "invalid_api_key"},
		{"at the provider: its model is taken away", atProvider, func(h *house) { h.change(func(r *Rules) { r.Models = nil }) }, 404, "model_not_found"},
		{"at the provider: the gateway stops", atProvider, func(h *house) { h.StopWaiting(0) }, 503, "shutting_down"},
	} {
		t.Run(s.what, func(t *testing.T) {
			inHouse(t, s.at, answers, func(h *house) {
				if a := h.ask(chatPath, shortAsk); a.status != 200 {
					t.Fatalf("the first: got %d\n%s", a.status, a.body)
				}
				time.Sleep(15 * time.Second) // the next fits in 45 s
				first, second := h.open(chatPath, shortAsk), (*coming)(nil)
				time.Sleep(time.Second)
				if s.at.provider == nil { // behind it
					second = h.open(chatPath, shortAsk, "X-LLMGW-Max-Wait", "10h")
				}
				time.Sleep(time.Second)
				began := time.Now()
				s.event(h)
				for _, c := range []*coming{first, second} {
					if c == nil {
						continue
					}
					a, took := c.ends(began)
					if a.status != s.status || a.header.Get("X-Llmgw-Error-Code") != s.code {
						t.Errorf("got %d %q, want %d %q\n%s", a.status, a.header.Get("X-Llmgw-Error-Code"), s.status, s.code, a.body)
					}
					if took > 300*time.Millisecond { // a provider's queue looks that often
						t.Errorf("it ended after %v, want at once", took)
					}
					if s.status == 503 && a.header.Get("Retry-After") != "1" {
						t.Errorf("got Retry-After %q, want 1", a.header.Get("Retry-After"))
					}
				}
				if e := h.entry(); s.status != 200 && (e.Outcome != "refused" && e.Outcome != "invalid" || e.Usage.Total() != 0) {
					t.Errorf("got the outcome %q and %d tokens charged, want a refusal that costs nothing", e.Outcome, e.Usage.Total())
				}
				if n := h.limiter.open(); n != 0 || h.Waiting() != 0 {
					t.Errorf("%d reservations are open and %d requests wait", n, h.Waiting())
				}
			})
		})
	}
}

// block blocks the house's team.
func block(h *house) {
	if _, err := h.Blocks.Add(context.Background(), tenant.Block{Scope: tenant.BlockTeam, Value: "t"}); err != nil {
		h.t.Fatal(err)
	}
	h.Room.Wake()
}

func removeKey(t *testing.T) func(*house) {
	return func(h *house) {
		d, err := tenant.NewDirectory([]tenant.Team{{Name: "t", Weight: 1}})
		if err != nil {
			t.Fatal(err)
		}
		h.change(func(r *Rules) { r.Directory = d })
	}
}

// provider reloads the house's provider.
func provider(change func(*upstream.Provider)) func(*house) {
	return func(h *house) {
		p := *h.Rules().Models["m"].Targets[0].Provider
		p.Version++
		change(&p)
		h.Upstream.Reload([]*upstream.Provider{&p})
		h.Room.Wake()
	}
}

func TestAWaitingClientThatLeavesFreesItsPlace(t *testing.T) {
	for _, at := range []setting{limited(t, slowly()), pacedBy} {
		inHouse(t, at, answers, func(h *house) {
			h.ask(chatPath, shortAsk)
			time.Sleep(20 * time.Second)
			leaves := h.open(chatPath, shortAsk)
			time.Sleep(time.Second)
			began := time.Now()
			stays := h.open(chatPath, shortAsk)
			time.Sleep(time.Second)
			leaves.leave()
			if a, took := stays.ends(began); a.status != 200 || took > 40*time.Second {
				t.Errorf("got %d after %v, want the turn of the one that left", a.status, took)
			}
		})
	}
}

// While the store is away an open limit grants and a closed one refuses: nobody
// stands behind those who wait for another limit.
func TestWithoutTheStoreNobodyWaitsForAnOpenOrClosedLimit(t *testing.T) {
	for _, s := range []struct {
		policy budget.StorePolicy
		alone  bool // the limit that is waited for is the one with the policy
		status int
		code   string
	}{
		{budget.Open, true, 200, ""},
		{budget.Closed, true, 503, "limiter_unavailable"},
		{budget.Closed, false, 503, "limiter_unavailable"},
	} {
		t.Run(fmt.Sprint(s.policy, s.alone), func(t *testing.T) {
			waits, other := slowly(), houseLimit(budget.Tokens)
			other.WhenStoreDown = s.policy
			if s.alone {
				waits.WhenStoreDown = s.policy
			}
			var store *outage
			set := limited(t, waits, other)
			set.parts = func(p *Parts) {
				store = &outage{Limiter: p.Limiter}
				p.Limiter, p.StoreUp = store, func() bool { return !store.away.Load() }
			}
			inHouse(t, set, answers, func(h *house) {
				h.ask(chatPath, shortAsk)
				time.Sleep(20 * time.Second)
				waiting := h.open(chatPath, shortAsk)
				time.Sleep(time.Second)
				began := time.Now()
				store.away.Store(true)
				h.Room.Wake()
				for _, c := range []*coming{h.open(chatPath, shortAsk), waiting} {
					a, took := c.ends(began)
					if a.status != s.status || a.header.Get("X-Llmgw-Error-Code") != s.code || took > 0 {
						t.Errorf("got %d %q after %v, want %d %q at once", a.status, a.header.Get("X-Llmgw-Error-Code"), took, s.status, s.code)
					}
				}
			})
		})
	}
}

// outage is a limiter that decides by the limits' policies while its store is away.
type outage struct {
	Limiter
	away atomic.Bool
}

func (o *outage) Reserve(ctx context.Context, r budget.Request) (*budget.Reservation, budget.Verdict) {
	if !o.away.Load() {
		return o.Limiter.Reserve(ctx, r)
	}
	v := budget.Verdict{Binding: -1, Degraded: true, Lines: make([]budget.LineState, len(r.Lines))}
	for i, l := range r.Lines {
		if l.Limit.WhenStoreDown == budget.Closed {
			v.Outcome, v.Binding, v.Wait = budget.Unavailable, i, time.Second
			v.Lines[i] = budget.LineState{Outcome: budget.Unavailable}
		}
	}
	return nil, v
}

// What comes back at one gateway ends a wait at another soon, and each wait costs
// few questions.
func TestAWaitSeesWhatAnotherGatewayGivesBack(t *testing.T) {
	tpm := houseLimit(budget.Tokens)
	tpm.Amount, tpm.Burst, tpm.Wait, tpm.MaxWait = 1000, 1000, true, time.Minute
	tpm.UnboundedDebt = true
	synctest.Test(t, func(t *testing.T) {
		shared := newAccounts()
		slow := func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(5 * time.Second)
			answers(w, r)
		}
		here, endHere := limited(t, tpm).house(t, shared, slow)
		defer endHere()
		there, endThere := limited(t, tpm).house(t, shared, answers)
		defer endThere()
		first := here.open(chatPath, `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":990}`)
		time.Sleep(time.Second)
		began := time.Now()
		a, took := there.open(chatPath, `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":900}`).ends(began)
		if a.status != 200 || took > 5*time.Second+100*time.Millisecond {
			t.Errorf("got %d after %v, want it within a second of the 4 s after which 989 tokens came back\n%s", a.status, took, a.body)
		}
		first.rest()
	})
}

// The queue ahead is known: who would not have its turn in time is refused when it
// comes, and is not kept for nothing.
func TestAWaitThatIsKnownToBeTooLongIsRefusedAtOnce(t *testing.T) {
	rps := slowly()
	rps.Amount, rps.Period = 2, budget.Second // one each 500 ms, one at a time
	rps.Burst = 1
	inHouse(t, limited(t, rps), answers, func(h *house) {
		h.ask(chatPath, shortAsk)
		var ahead []*coming
		for range 3 {
			ahead = append(ahead, h.open(chatPath, shortAsk))
			synctest.Wait()
		}
		began := time.Now()
		a, took := h.open(chatPath, shortAsk, "X-LLMGW-Max-Wait", "1500ms").ends(began)
		if a.status != 429 || took > 0 {
			t.Errorf("got %d after %v, want 429 at once: its turn is 2 s away", a.status, took)
		}
		if got := a.header.Get("Retry-After-Ms"); got != "2000" {
			t.Errorf("got retry-after-ms %q, want the 2000 after which its turn would be", got)
		}
		a, took = h.open(chatPath, shortAsk, "X-LLMGW-Max-Wait", "2500ms").ends(began)
		if a.status != 200 || took != 2*time.Second {
			t.Errorf("got %d after %v, want its turn after 2s", a.status, took)
		}
		for _, c := range ahead {
			c.rest()
		}
	})
}

// Those in line know from the verdict of the one before them when they will fit.
func TestAWaitingRequestCostsLittleMoreThanOneQuestion(t *testing.T) {
	rps := slowly()
	rps.Amount, rps.Period, rps.Burst = 10, budget.Second, 1
	var asked *questions
	set := limited(t, rps)
	set.parts = func(p *Parts) {
		asked = &questions{Limiter: p.Limiter}
		p.Limiter = asked
	}
	inHouse(t, set, answers, func(h *house) {
		const calls = 100
		var all []*coming
		for range calls {
			all = append(all, h.open(chatPath, shortAsk))
		}
		for _, c := range all {
			if a := c.rest(); a.status != 200 {
				t.Fatalf("got %d\n%s", a.status, a.body)
			}
		}
		if n := asked.n.Load(); n > calls*12/10 {
			t.Errorf("%d calls asked %d times, want 1.2 times each at most", calls, n)
		}
	})
}

// questions is a limiter that counts how often it is asked.
type questions struct {
	Limiter
	n atomic.Int64
}

func (q *questions) Reserve(ctx context.Context, r budget.Request) (*budget.Reservation, budget.Verdict) {
	q.n.Add(1)
	return q.Limiter.Reserve(ctx, r)
}

func TestAStoppingGatewayGrantsWhatComesInTime(t *testing.T) {
	for _, at := range []setting{limited(t, slowly()), pacedBy} {
		inHouse(t, at, answers, func(h *house) {
			h.ask(chatPath, shortAsk)
			time.Sleep(58 * time.Second)
			soon := h.open(chatPath, shortAsk)
			time.Sleep(time.Second)
			h.StopWaiting(3 * time.Second)
			if a := soon.rest(); a.status != 200 {
				t.Errorf("a turn within the time: got %d, want 200", a.status)
			}
			late := h.open(chatPath, shortAsk)
			began := time.Now()
			if a, took := late.ends(began); a.header.Get("X-Llmgw-Error-Code") != "shutting_down" || took > 3*time.Second {
				t.Errorf("a turn that is too late: got %d after %v\n%s", a.status, took, a.body)
			}
		})
	}
}
