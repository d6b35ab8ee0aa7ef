package blackbox

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"llmgw/internal/gatewaytest"
	"llmgw/internal/redistest"
)

// kind is one way to count: a team of its own has one limit of it, for five of
// the requests that all send, and one that is never reached around it.
type kind struct {
	scope     string // where the limit stands, or what it counts over
	unit      string
	algorithm string
	per       string
	more      string // further keys of the limit
}

func kinds() []kind {
	var all []kind
	for _, scope := range []string{"team", "key", "user", "ip", "model"} {
		for _, unit := range []string{"tokens", "input_tokens", "output_tokens", "requests", "usd"} {
			for algorithm, per := range map[string]string{"token_bucket": "hour", "calendar": "month", "sliding_window": "month", "sliding_log": "month"} {
				all = append(all, kind{scope, unit, algorithm, per, ""})
			}
		}
	}
	return all
}

func (k kind) name() string { return strings.Join([]string{k.scope, k.unit, k.algorithm}, "-") }

func (k kind) secret() string { return "sk-llmgw-" + k.name() }

// Each request reserves and uses 8 tokens of input and 12 of output, for 56
// micro-dollars; much is what so many of them come to.
const matrixModel = "sim-in8-out12"

func (k kind) much(requests int) string {
	per := map[string]int{"tokens": 20, "input_tokens": 8, "output_tokens": 12, "requests": 1}[k.unit]
	if k.unit == "usd" {
		return fmt.Sprintf("%.6f", float64(56*requests)/1e6)
	}
	return fmt.Sprint(per * requests)
}

// team is the configuration of k's team, whose limit is for so many requests.
func (k kind) team(requests int) string {
	limit := fmt.Sprintf("{name: edge, unit: %s, amount: %s, per: %s, algorithm: %s", k.unit, k.much(requests), k.per, k.algorithm)
	if k.scope != "team" && k.scope != "key" {
		limit += ", scope: " + k.scope
	}
	limit += k.more + "}"
	ofTeam, ofKey := limit+", ", ""
	if k.scope == "key" {
		ofTeam, ofKey = "", limit
	}
	return fmt.Sprintf("  - {name: %s, limits: [%s{name: around, unit: requests, amount: 1000, per: month}], keys: [{id: %s-key, sha256: %s, limits: [%s]}]}\n",
		k.name(), ofTeam, k.name(), gatewaytest.SHA256(k.secret()), ofKey)
}

// Whatever is counted, over whatever, by whichever algorithm and in whichever
// store: of many requests at once exactly those that fit are admitted, a refusal
// names its limit and costs nothing of any other, and a larger amount keeps what
// was used (A1, A3, A6, A7, A9, E7).
func TestA1A3A6A7A9E7HoldForEveryKindOfLimitInEveryStore(t *testing.T) {
	for _, s := range []struct {
		what  string
		setup setup
		n     int // gateways
	}{
		{"in memory", setup{}, 1},
		{"in Redis, from leases", setup{redis: true}, 2},
		{"in Redis, each request by itself", setup{redis: true, store: "leases: off"}, 2},
	} {
		t.Run(s.what, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, provider: gatewaytest.StartProvider(t, s.setup.fake)}
			if s.setup.redis {
				w.redis = redistest.Start(t)
			}
			config := func(requests int) string {
				text := s.setup.config(w)
				for _, k := range kinds() {
					text += k.team(requests)
				}
				return text
			}
			for range s.n {
				w.all = append(w.all, gatewaytest.Start(t, config(5)))
			}
			w.Gateway = w.all[0]
			w.eachKindAdmits(5)
			for _, g := range w.all {
				g.WriteConfig(config(8))
				g.Signal(syscall.SIGHUP)
				g.Eventually("reloaded", eventually, func() bool {
					return g.Limit("team-requests-calendar", "edge").Amount == 8
				})
			}
			w.eachKindAdmits(8 - 5)
		})
	}
}

// eachKindAdmits sends more requests of each kind than fit, and wants so many
// admitted.
func (w *world) eachKindAdmits(want int) {
	w.t.Helper()
	var teams sync.WaitGroup
	turns := make(chan struct{}, 4)
	for _, k := range kinds() {
		turns <- struct{}{}
		teams.Go(func() {
			defer func() { <-turns }()
			before := w.Limit(k.name(), "around").Remaining
			admitted := w.admitted(k, 12)
			if admitted != want {
				w.t.Errorf("%s: got %d admitted, want %d", k.name(), admitted, want)
			}
			w.Eventually(k.name()+": settled", eventually, func() bool {
				l := w.Limit(k.name(), "around")
				return l.Open == 0 && int(before-l.Remaining) == admitted
			})
		})
	}
	teams.Wait()
}

// admitted sends n requests at once, in turn to all gateways, and returns how
// many were admitted.
func (w *world) admitted(k kind, n int) int {
	w.t.Helper()
	return w.admittedOf(k, n, ask(matrixModel, bound(20)))
}

func (w *world) admittedOf(k kind, n int, body string) int {
	w.t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	admitted := 0
	for i := range n {
		all.Go(func() {
			a, err := w.all[i%len(w.all)].Try(k.secret(), chat, body, "X-LLMGW-User", "ann")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				w.t.Errorf("%s: %v", k.name(), err)
			case a.Status == 200:
				admitted++
			case a.Status != 429 || !strings.HasSuffix(a.LimitedBy(), "/edge") || !strings.HasPrefix(a.LimitedBy(), k.scope+"/"):
				w.t.Errorf("%s: got %d, limited by %q\n%s", k.name(), a.Status, a.LimitedBy(), a.Body)
			}
		})
	}
	all.Wait()
	return admitted
}

// What was used beyond the reserve is owed in full by every kind of limit, by two
// at once as by one, and nothing fits until it is paid (A13, A14, A16).
func TestA13A14A16AnOverrunIsOwedByEveryKindOfLimitInEveryStore(t *testing.T) {
	used := map[string]float64{"tokens": 120, "input_tokens": 108, "usd": 156e-6}
	for _, s := range []setup{{}, {redis: true}} {
		t.Run(fmt.Sprintf("redis %v", s.redis), func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, provider: gatewaytest.StartProvider(t, s.fake)}
			if s.redis {
				w.redis = redistest.Start(t)
			}
			text := s.config(w)
			for _, k := range kinds() {
				text += k.team(5)
			}
			w.all = []*gatewaytest.Gateway{gatewaytest.Start(t, text)}
			w.Gateway = w.all[0]
			for _, k := range kinds() {
				if used[k.unit] == 0 || k.scope != "team" {
					continue
				}
				var both sync.WaitGroup
				for range 2 {
					both.Go(func() {
						if a, err := w.Try(k.secret(), chat, ask("sim-in108-out12-wait200ms", bound(20))); err != nil || a.Status != 200 {
							t.Errorf("%s: got %d, %v, want both admitted", k.name(), a.Status, err)
						}
					})
				}
				both.Wait()
				w.Eventually(k.name()+": settled", eventually, func() bool { return w.Limit(k.name(), "around").Open == 0 })
				l := w.Limit(k.name(), "edge")
				want := l.Amount - 2*used[k.unit]
				// An hour's bucket may have gained a unit or so meanwhile.
				if off := (l.Remaining - want) / l.Amount; off < -1e-9 || off > 0.03 || k.algorithm != "token_bucket" && off > 1e-9 {
					t.Errorf("%s: got %v left of %v, want %v", k.name(), l.Remaining, l.Amount, want)
				}
				if a := w.Post(k.secret(), chat, ask("sim-in8-out1", bound(9))); a.Status != 429 {
					t.Errorf("%s: got %d in debt, want 429", k.name(), a.Status)
				}
			}
		})
	}
}

// Without Redis every kind of limit does what its policy says: of two instances
// one grants half of it, or nothing, or all (F2, F3, F4).
func TestF2F3F4EveryKindOfLimitHasItsPolicyWithoutTheStore(t *testing.T) {
	for policy, want := range map[string]int{"closed": 0, "open": 12, "local": 5} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, provider: gatewaytest.StartProvider(t, setup{}.fake), redis: redistest.Start(t)}
			text, teams := setup{redis: true, store: "heartbeat: 100ms"}.config(w), kinds()
			for i := range teams {
				teams[i].more = ", when_store_down: " + policy
				text += teams[i].team(10)
			}
			for range 2 {
				w.all = append(w.all, gatewaytest.Start(t, text))
			}
			w.Gateway = w.all[0]
			// Ten heartbeats long, so that each instance has heard of the other.
			if a := w.Post(other, chat, ask("sim-out1-wait1s")); a.Status != 200 {
				t.Fatalf("got %d\n%s", a.Status, a.Body)
			}
			w.redis.Kill()
			w.Eventually("noticed", eventually, func() bool { return w.Metrics().Sum("llmgw_store_up") == 0 })
			for _, k := range teams {
				got := map[string]int{}
				for range 12 {
					a := w.Post(k.secret(), chat, ask(matrixModel, bound(20)), "X-LLMGW-User", "ann")
					got[a.Code()]++
					if a.Code() != "" && !strings.HasSuffix(a.LimitedBy(), "/edge") {
						t.Errorf("%s: limited by %q\n%s", k.name(), a.LimitedBy(), a.Body)
					}
				}
				if got[""] != want || policy == "closed" && got["limiter_unavailable"] != 12 {
					t.Errorf("%s: got %v, want %d admitted", k.name(), got, want)
				}
			}
		})
	}
}

// Slots are exact over whatever they count, in both stores and over both
// instances, and come back from every one of many (A1, A11).
func TestA1A11SlotsAreExactForEveryScopeInEveryStore(t *testing.T) {
	scopes := []string{"team", "key", "user", "ip", "model"}
	for _, s := range []struct {
		what  string
		setup setup
		n     int
	}{{"in memory", setup{}, 1}, {"in Redis", setup{redis: true}, 2}} {
		t.Run(s.what, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, provider: gatewaytest.StartProvider(t, s.setup.fake)}
			if s.setup.redis {
				w.redis = redistest.Start(t)
			}
			text := s.setup.config(w)
			slots := func(scope string) kind { return kind{scope: scope, unit: "concurrency"} }
			for _, scope := range scopes {
				text += strings.Replace(slots(scope).team(5), "amount: 0, per: , algorithm: ", "amount: 5", 1)
			}
			for range s.n {
				w.all = append(w.all, gatewaytest.Start(t, text))
			}
			w.Gateway = w.all[0]
			for _, scope := range scopes {
				for round := range 2 {
					if got := w.admittedOf(slots(scope), 12, ask("sim-in8-out12-wait1s", bound(20))); got != 5 {
						t.Errorf("%s, round %d: got %d admitted, want the 5 that have a slot", scope, round, got)
					}
					w.Eventually(scope+": settled", eventually, func() bool { return w.Limit(slots(scope).name(), "around").Open == 0 })
				}
			}
		})
	}
}

// A limit in shadow refuses nobody, and tells whom it would have.
func TestAShadowOfEveryKindRefusesNobodyAndCountsWhomItWould(t *testing.T) {
	for _, s := range []setup{{}, {redis: true}} {
		t.Run(fmt.Sprintf("redis %v", s.redis), func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, provider: gatewaytest.StartProvider(t, s.fake)}
			if s.redis {
				w.redis = redistest.Start(t)
			}
			text, teams := s.config(w), kinds()
			for i := range teams {
				teams[i].more = ", mode: shadow"
				text += teams[i].team(5)
			}
			w.all = []*gatewaytest.Gateway{gatewaytest.Start(t, text)}
			w.Gateway = w.all[0]
			for _, k := range teams {
				if got := w.admitted(k, 12); got != 12 {
					t.Errorf("%s: got %d admitted, want all 12", k.name(), got)
				}
			}
			m := w.Metrics()
			for _, k := range teams {
				if got := m.Sum("llmgw_rejections_total", "team", k.name(), "mode", "shadow"); got != 7 {
					t.Errorf("%s: got %v that it would have refused, want 7", k.name(), got)
				}
			}
		})
	}
}
