package upstream

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// ids makes the ids of requests unique.
var ids atomic.Int64

// spread makes n calls one after the other and counts who served them.
func spread(t *testing.T, c *Client, n int, targets ...Target) map[string]int {
	t.Helper()
	got := map[string]int{}
	for range n {
		r, err := c.Do(t.Context(), job(fmt.Sprint("r", ids.Add(1)), targets...))
		if err != nil {
			t.Fatal(err)
		}
		whole(t, r)
		got[r.Target.Provider.Name]++
	}
	return got
}

func TestTargetsAreUsedByTheirWeights(t *testing.T) {
	a, b, spare := provider("a", nil), provider("b", nil), provider("spare", nil)
	c := client(t, nil, &script{}, nil, a, b, spare)
	got := spread(t, c, 40, Target{Provider: a, Weight: 3}, Target{Provider: b, Weight: 1}, Target{Provider: spare})
	if got["a"] != 30 || got["b"] != 10 || got["spare"] != 0 {
		t.Errorf("40 calls by weights 3, 1 and 0 went %v", got)
	}
}

// H9: calls go where there is room, before one provider is full.
func TestTargetsAreUsedByWhatTheyHaveLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		wide := provider("wide", func(p *Provider) { p.Limits.RequestsPerMinute = 540 })
		narrow := provider("narrow", func(p *Provider) { p.Limits.RequestsPerMinute = 60 })
		w := &watcher{}
		c := client(t, m, &script{}, w, wide, narrow)
		got := map[string]int{}
		for i := range 600 {
			time.Sleep(125 * time.Millisecond) // 480 a minute
			r, err := c.Do(t.Context(), job(fmt.Sprint(i), Target{Provider: wide, Weight: 1}, Target{Provider: narrow, Weight: 1}))
			if err != nil {
				t.Fatal(err)
			}
			whole(t, r)
			got[r.Target.Provider.Name]++
		}
		if got["narrow"] < 60 || got["narrow"] > 75 {
			t.Errorf("of 600 calls in 75 s, a provider of 60 a minute got %d", got["narrow"])
		}
		for _, d := range w.waits {
			if d > 0 {
				t.Fatalf("a call waited %s though the other provider had room", d)
			}
		}
	})
}

func TestWhenAllAreFullTheShortestQueueIsJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		slow := provider("slow", func(p *Provider) { p.Limits.RequestsPerMinute, p.MaxWait = 1, time.Hour })
		quick := provider("quick", func(p *Provider) { p.Limits.RequestsPerMinute = 60 })
		c := client(t, m, &script{}, nil, slow, quick)
		targets := []Target{{Provider: slow, Weight: 9}, {Provider: quick, Weight: 1}}
		spread(t, c, 2, targets...)
		for range 40 {
			start := time.Now()
			if got := spread(t, c, 1, targets...); got["quick"] != 1 || time.Since(start) > 1100*time.Millisecond {
				t.Errorf("with both full, %v served after %s", got, time.Since(start))
			}
		}
	})
}

func TestATargetThatKeepsFailingIsPassedOverForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: map[string][]answer{"bad": {{status: 500}}}}
		none := func(p *Provider) { p.Retries = 0 }
		bad, good := provider("bad", none), provider("good", none)
		c := client(t, nil, s, nil, bad, good)
		targets := []Target{{Provider: bad, Weight: 1}, {Provider: good, Weight: 1}}
		if got := spread(t, c, 2*tripAfter, targets...); got["bad"] != tripAfter {
			t.Fatalf("while both count as well, %v served", got)
		}
		if got := spread(t, c, 10, targets...); got["bad"] != 0 {
			t.Errorf("after %d failures in a row, %v served", tripAfter, got)
		}
		time.Sleep(coolFirst)
		if got := spread(t, c, 10, targets...); got["bad"] != 1 {
			t.Errorf("after the pause one call should try it, but %v served", got)
		}
		s.answers["bad"] = []answer{{status: 200}}
		time.Sleep(2 * coolFirst)
		if got := spread(t, c, 10, targets...); got["bad"] != 5 {
			t.Errorf("once it is well, %v served", got)
		}
		s.answers["bad"] = []answer{{status: 500}, {status: 200}}
		if got := spread(t, c, 10, targets...); got["bad"] != 5 {
			t.Errorf("after one more failure, %v served", got)
		}
	})
}

func TestTheOnlyTargetIsAskedHoweverOftenItFailed(t *testing.T) {
	s := &script{answers: map[string][]answer{"a": {{status: 500}}}}
	p := provider("a", func(p *Provider) { p.Retries = 0 })
	c := client(t, nil, s, nil, p)
	spread(t, c, 3*tripAfter, Target{Provider: p, Weight: 1})
	if got := len(s.sent); got != 3*tripAfter {
		t.Errorf("%d of %d calls were sent", got, 3*tripAfter)
	}
}

func TestTheSpareServesWhileAllOthersArePassedOver(t *testing.T) {
	s := &script{answers: map[string][]answer{"a": {{status: 500}}}}
	none := func(p *Provider) { p.Retries = 0 }
	a, spare := provider("a", none), provider("spare", none)
	c := client(t, nil, s, nil, a, spare)
	targets := []Target{{Provider: a, Weight: 5}, {Provider: spare}}
	spread(t, c, tripAfter, targets...)
	if got := spread(t, c, 4, targets...); got["spare"] != 4 {
		t.Errorf("%v served", got)
	}
}

func TestAProviderThatAskedToWaitIsPassedOverMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: map[string][]answer{"a": {{status: 429, header: map[string]string{"Retry-After": "5"}}, {status: 200}}}}
		a, b := provider("a", nil), provider("b", nil)
		c := client(t, nil, s, nil, a, b)
		targets := []Target{{Provider: a, Weight: 1}, {Provider: b, Weight: 1}}
		spread(t, c, 10, targets...)
		asked := 0
		for _, h := range s.hosts() {
			if h == "a" {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("it was asked %d times within its retry-after", asked)
		}
		time.Sleep(5 * time.Second)
		if got := spread(t, c, 10, targets...); got["a"] != 5 {
			t.Errorf("after its retry-after, %v served", got)
		}
	})
}

func TestKeysAreUsedByWhatEachHasLeft(t *testing.T) {
	left := map[string]string{"Bearer one": "100", "Bearer two": "5000", "Bearer three": "700"}
	used := map[string]int{}
	p := provider("a", func(p *Provider) { p.APIKeys = []string{"one", "two", "three"} })
	c := New(Config{Providers: []*Provider{p}, Transport: func(*Provider) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			key := r.Header.Get("Authorization")
			used[key]++
			h := http.Header{}
			h.Set("X-Ratelimit-Remaining-Tokens", left[key])
			return &http.Response{StatusCode: 200, Header: h, Body: http.NoBody}, nil
		})
	}})
	spread(t, c, 10, Target{Provider: p})
	if used["Bearer one"] != 1 || used["Bearer three"] != 1 || used["Bearer two"] != 8 {
		t.Errorf("the keys were used %v", used)
	}
}

func TestAnotherKeyServesWhileOneIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: map[string][]answer{"a": {{status: 429, header: map[string]string{"Retry-After": "3600"}}, {status: 200, body: "fine\n"}}}}
		p := provider("a", func(p *Provider) { p.APIKeys = []string{"one", "two"} })
		start := time.Now()
		c := client(t, nil, s, nil, p)
		for range 4 {
			r, err := c.Do(t.Context(), job("r", Target{Provider: p, Weight: 1}))
			if err != nil {
				t.Fatal(err)
			}
			if whole(t, r); r.Status != 200 {
				t.Errorf("status %d", r.Status)
			}
		}
		refused := s.sent[0].key
		for _, r := range s.sent[1:] {
			if r.key == refused {
				t.Errorf("the refused key was used again")
			}
		}
		if time.Since(start) != 0 {
			t.Errorf("it took %s", time.Since(start))
		}
	})
}

func TestWithLimitsPerKeyEachKeyHasItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := &script{}
		p := provider("a", func(p *Provider) {
			p.APIKeys = []string{"one", "two"}
			p.Limits = Limits{RequestsPerMinute: 60, Keys: PerKey}
		})
		c := client(t, m, s, nil, p)
		start := time.Now()
		spread(t, c, 6, Target{Provider: p})
		if d := time.Since(start); d < 2040*time.Millisecond || d > 2100*time.Millisecond {
			t.Errorf("six calls over two keys of one a second took %s", d)
		}
		used := map[string]int{}
		for _, r := range s.sent {
			used[r.key]++
		}
		if used["Bearer one"] != 3 || used["Bearer two"] != 3 {
			t.Errorf("the keys were used %v", used)
		}
	})
}

func TestAReloadKeepsWhatIsKnownOfAProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		made := 0
		s := &script{answers: map[string][]answer{"a": {{status: 400, body: rejected}, {status: 200, body: "fine\n"}}}}
		limited := func(p *Provider) { p.Limits.RequestsPerMinute = 60 }
		before := provider("a", limited)
		c := New(Config{Providers: []*Provider{before, provider("gone", nil)}, Limiter: m,
			Transport: func(*Provider) http.RoundTripper { made++; return s }})
		r, err := c.Do(t.Context(), streaming(job("first", Target{Provider: before})))
		if err != nil {
			t.Fatal(err)
		}
		whole(t, r)
		for _, team := range []string{"b", "c"} {
			c.remember(attempt{target: Target{Provider: before}, state: c.states["a"]}, &Job{Call: job("x").Call, Team: team})
		}
		after := provider("a", limited)
		after.APIKeys = []string{"new", "k"}
		c.Reload([]*Provider{after, provider("fresh", nil)})
		if made != 3 {
			t.Errorf("%d transports for three providers", made)
		}
		start := time.Now()
		r, err = c.Do(t.Context(), streaming(job("second", Target{Provider: after})))
		if err != nil {
			t.Fatal(err)
		}
		whole(t, r)
		if time.Since(start) < time.Second {
			t.Errorf("the pace was forgotten: the next call went after %s", time.Since(start))
		}
		if got := s.sent[len(s.sent)-1].body; got != "hello" {
			t.Errorf("that it rejects stream_options was forgotten: sent %q", got)
		}
		if c.states["gone"] != nil {
			t.Errorf("a provider that went is still known")
		}
		// A call that began before the reload still ends with what it began with.
		if r, err = c.Do(t.Context(), job("third", Target{Provider: before})); err != nil {
			t.Fatal(err)
		}
		whole(t, r)
	})
}

func TestChangingWhatTheLimitsHoldForBeginsAnew(t *testing.T) {
	p := provider("a", func(p *Provider) { p.APIKeys = []string{"one", "two"}; p.Limits.RequestsPerMinute = 60 })
	c := client(t, newMemory(), &script{}, nil, p)
	keys := c.states["a"].keys
	if keys[0].pacer != keys[1].pacer {
		t.Errorf("shared limits have two queues")
	}
	q := *p
	q.Limits.Keys = PerKey
	c.Reload([]*Provider{&q})
	keys = c.states["a"].keys
	if keys[0].pacer == keys[1].pacer || keys[0].pacer.paced == nil || keys[1].pacer.paced == nil {
		t.Errorf("limits per key have %+v", keys)
	}
	c.Reload([]*Provider{p})
	keys = c.states["a"].keys
	if keys[0].pacer != keys[1].pacer {
		t.Errorf("shared again, the limits have two queues")
	}
}

func TestModelsOfClientsChoosingAreBounded(t *testing.T) {
	p := provider("a", nil)
	c := client(t, nil, &script{}, nil, p)
	for i := range 3 * maxConditions {
		s := c.states["a"]
		s.rotate(fmt.Sprint(i), 1)
		s.conditions.fail(scope{model: fmt.Sprint(i)}, morning, morning)
		s.conditions.rest(scope{key: "k"}, refused, 0, morning, morning)
	}
	s := c.states["a"]
	if n := max(len(s.rotation), len(s.conditions)); n > maxConditions {
		t.Errorf("%d models are remembered", n)
	}
	if s.conditions[scope{key: "k"}].cause != refused {
		t.Errorf("models made a credential's state be forgotten")
	}
}

// idler is a transport that knows whether its idle connections were closed.
type idler struct {
	script
	closed int
}

func (i *idler) CloseIdleConnections() { i.closed++ }

func TestConnectionsAreMadeAnewOnlyWhereTheirTimeoutChanged(t *testing.T) {
	made := map[string][]*idler{}
	transport := func(p *Provider) http.RoundTripper {
		tr := &idler{}
		made[p.Name] = append(made[p.Name], tr)
		return tr
	}
	connect := func(d time.Duration) func(*Provider) { return func(p *Provider) { p.Timeouts.Connect = d } }
	c := New(Config{Transport: transport, Providers: []*Provider{
		provider("same", connect(time.Second)), provider("changed", connect(time.Second)), provider("gone", nil)}})
	c.Reload([]*Provider{provider("same", connect(time.Second)), provider("changed", connect(2*time.Second))})
	for name, want := range map[string][]int{"same": {0}, "changed": {1, 0}, "gone": {1}} {
		var closed []int
		for _, tr := range made[name] {
			closed = append(closed, tr.closed)
		}
		if fmt.Sprint(closed) != fmt.Sprint(want) {
			t.Errorf("%s: transports with their idle connections closed %v times, want %v", name, closed, want)
		}
	}
	c.Close()
	if made["same"][0].closed != 1 || made["changed"][1].closed != 1 {
		t.Errorf("closing the client left connections open")
	}
}
