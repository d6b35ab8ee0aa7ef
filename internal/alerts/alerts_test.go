package alerts

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/gatewaytest"
	"llmgw/internal/shared"
)

var clock = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// fleet is gateways on one store, with a receiver, on a clock that a test moves.
type fleet struct {
	t      *testing.T
	store  Store
	now    time.Time
	used   int64 // of 1000 in the month
	open   int64
	refuse map[string]int64
	down   []string
	keys   map[string]time.Time
	rules  []Rule
	hook   *hook
}

// hook is a receiver.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	got    []Alert
	bodies []string
	signed []string
}

func newHook(t *testing.T) *hook {
	h := &hook{status: http.StatusOK}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.bodies, h.signed = append(h.bodies, string(body)), append(h.signed, r.Header.Get("X-LLMGW-Signature"))
		if h.status == http.StatusOK {
			var a Alert
			if err := json.Unmarshal(body, &a); err != nil {
				t.Errorf("%s: %v", body, err)
			}
			h.got = append(h.got, a)
		}
		if h.status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(h.status)
	}))
	t.Cleanup(h.Close)
	return h
}

// thresholds are those of the alerts that h took, sorted.
func (h *hook) thresholds() (list []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.got {
		list = append(list, a.Threshold)
	}
	slices.Sort(list)
	return list
}

func newFleet(t *testing.T, rules ...Rule) *fleet {
	return &fleet{t: t, store: new(shared.Memory), now: clock, rules: rules, hook: newHook(t)}
}

// gateway is one more of the fleet.
func (f *fleet) gateway(name string) *Alerts {
	monthly, err := budget.NewLimit(budget.Limit{Place: "team/search", Scope: budget.Team, Owner: "search", Name: "monthly", Unit: budget.USD, Amount: 1_000_000_000, Period: budget.Month})
	if err != nil {
		f.t.Fatal(err)
	}
	tpm, err := budget.NewLimit(budget.Limit{Place: "team/search", Scope: budget.Team, Owner: "search", Name: "tpm", Unit: budget.Tokens, Amount: 10, Period: budget.Minute})
	if err != nil {
		f.t.Fatal(err)
	}
	return New(Config{
		Store: f.store, Instance: name, Now: func() time.Time { return f.now }, Logger: slog.New(slog.DiscardHandler),
		Sources: Sources{
			Limits: func() []*budget.Limit { return []*budget.Limit{tpm, monthly} },
			Read: func(_ context.Context, lines []budget.Line) ([]budget.LineState, time.Time, error) {
				if len(lines) > 1 {
					f.t.Errorf("%d limits are read, want the budget alone", len(lines))
				}
				const dollar = 1_000_000
				state := budget.LineState{Capacity: 1000 * dollar, Remaining: (1000 - f.used - f.open) * dollar, Open: f.open * dollar}
				return slices.Repeat([]budget.LineState{state}, len(lines)), f.now, nil
			},
			Refused:  func(context.Context, int) (map[string]int64, error) { return f.refuse, nil },
			Down:     func() []string { return f.down },
			Expiring: func() map[string]time.Time { return f.keys },
		},
		Rules: func() ([]Rule, []Receiver) {
			return f.rules, []Receiver{{Name: "ops", URL: f.hook.URL, Format: JSON, Secret: "hush", AllowPrivate: true}}
		},
	})
}

// step lets a gateway look and send, and waits for what it sends.
func (f *fleet) step(a *Alerts) {
	a.step(f.t.Context())
	a.sending.Wait()
}

func budgetRule(at ...int64) Rule {
	return Rule{Name: "budgets", On: Budget, Limits: []string{"team/*/monthly"}, At: at, To: []string{"ops"}}
}

func (h *hook) wants(t *testing.T, what string, want ...int64) {
	t.Helper()
	if got := h.thresholds(); !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestEachThresholdIsToldOncePerFleetAndPeriod(t *testing.T) {
	f := newFleet(t, budgetRule(50, 80, 100))
	one, two := f.gateway("one"), f.gateway("two")
	both := func() { f.step(one); f.step(two); f.step(one) }
	f.used, f.open = 499, 400
	both()
	f.hook.wants(t, "what is open does not count")
	f.used, f.open = 500, 0
	both()
	f.hook.wants(t, "the first threshold", 50)
	f.used = 1200
	both()
	f.hook.wants(t, "a jump over several", 50, 80, 100)
	f.used = 10
	both()
	f.used = 1200
	f.step(f.gateway("restarted"))
	f.hook.wants(t, "again in this period", 50, 80, 100)
	f.now = time.Date(2026, 12, 1, 0, 0, 1, 0, time.UTC)
	f.used = 600
	both()
	f.hook.wants(t, "the next period", 50, 50, 80, 100)
	f.now = f.now.AddDate(0, 2, 0)
	f.used = 0
	both()
	if fields, err := f.store.Fields(t.Context(), outboxMap); err != nil || len(fields) != 0 {
		t.Errorf("%v: %d marks of periods that are over stay", err, len(fields))
	}
}

func TestAnAlertSaysWhatHappenedAndIsSigned(t *testing.T) {
	f := newFleet(t, budgetRule(80))
	f.used = 812
	f.step(f.gateway("one"))
	mac := hmac.New(sha256.New, []byte("hush"))
	mac.Write([]byte(f.hook.bodies[0]))
	if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); f.hook.signed[0] != want {
		t.Errorf("signed %q, want %q", f.hook.signed[0], want)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(f.hook.bodies[0]), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"rule": "budgets", "on": "budget", "limit": "team/search/monthly", "period_start": "2026-11-01T00:00:00Z", "threshold": 80.0,
		"used": 812.0, "amount": 1000.0, "unit": "usd", "time": "2026-11-20T12:00:00Z",
		"text": "team/search/monthly has reached 80 % of its budget: $812.00 of $1,000.00 used.",
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if id, _ := got["id"].(string); !strings.HasPrefix(id, "alr_") || len(got) != 11 {
		t.Errorf("got %v", got)
	}
}

func TestAFailedDeliveryIsTriedAgainWithGrowingPausesForADay(t *testing.T) {
	f := newFleet(t, budgetRule(80))
	f.hook.status = http.StatusInternalServerError
	f.used = 900
	one, two := f.gateway("one"), f.gateway("two")
	var tries []time.Duration
	for seen := 0; f.now.Sub(clock) < 30*time.Hour; f.now = f.now.Add(time.Second) {
		f.step(one)
		if f.now.Second()%7 == 0 {
			f.step(two)
		}
		if n := len(f.hook.bodies); n > seen {
			seen = n
			tries = append(tries, f.now.Sub(clock))
		}
	}
	if len(tries) < 20 || len(tries) > 60 || tries[len(tries)-1] < giveUpAfter || tries[len(tries)-1] > giveUpAfter+longestPause+time.Minute {
		t.Errorf("%d tries, the last after %v", len(tries), tries[len(tries)-1])
	}
	for i := 2; i < 10; i++ {
		if tries[i]-tries[i-1] < tries[i-1]-tries[i-2] {
			t.Errorf("the pauses do not grow: %v", tries[:10])
		}
	}
	if f.hook.status = http.StatusOK; len(slices.Compact(slices.Clone(f.hook.bodies))) != 1 {
		t.Error("a repeat has another body")
	}
	f.step(one)
	f.hook.wants(t, "given up")
}

func TestAnAlertOutlivesTheGatewayThatSendsIt(t *testing.T) {
	f := newFleet(t, budgetRule(80))
	f.used = 900
	dies := f.gateway("dies")
	rules, _ := dies.config.Rules()
	raised, err := dies.look(t.Context(), rules[0])
	if err == nil {
		err = dies.raise(t.Context(), rules[0], raised)
	}
	if err != nil {
		t.Fatal(err)
	}
	due, err := dies.outbox.due(t.Context(), f.now)
	if err != nil || len(due) != 1 {
		t.Fatalf("%d due, %v", len(due), err)
	}
	if ok, err := dies.outbox.claim(t.Context(), &due[0], f.now.Add(claimLasts)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	other := f.gateway("other")
	f.step(other)
	f.hook.wants(t, "while it may still be sent")
	f.now = f.now.Add(claimLasts)
	f.step(other)
	f.hook.wants(t, "after its sender died", 80)
}

// away is a store that cannot be asked.
type away struct{ Store }

func (away) Swap(context.Context, string, string, string, string) (bool, error) {
	return false, errors.New("away")
}

func TestAStoreThatIsAwayLosesNoAlert(t *testing.T) {
	f := newFleet(t, budgetRule(80))
	f.used = 900
	a := f.gateway("one")
	a.outbox.store = away{f.store}
	f.step(a)
	f.hook.wants(t, "away")
	a.outbox.store = f.store
	f.step(a)
	f.hook.wants(t, "back", 80)
}

func TestAReceiverThatHangsHoldsNothingUp(t *testing.T) {
	f := newFleet(t, budgetRule(10, 20, 30, 40, 50, 60))
	f.rules[0].To = []string{"hangs", "ops"}
	f.used = 900
	release, hung := make(chan struct{}), make(chan struct{}, 100)
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		hung <- struct{}{}
		<-release
	}))
	defer hangs.Close()
	defer close(release)
	a := f.gateway("one")
	rules := a.config.Rules
	a.config.Rules = func() ([]Rule, []Receiver) {
		r, to := rules()
		return r, append(to, Receiver{Name: "hangs", URL: hangs.URL, Format: JSON, AllowPrivate: true})
	}
	ctx, stop := context.WithCancel(t.Context())
	for range 4 {
		a.step(ctx)
		gatewaytest.Eventually(t, "the other receiver has what was sent", 20*time.Second, func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.busy["ops"] == 0
		})
	}
	f.hook.wants(t, "the other receiver", 10, 20, 30, 40, 50, 60)
	<-hung
	if n := len(hung); n > atOnce {
		t.Errorf("%d at once", n)
	}
	stop() // a stop waits for none of them
	a.sending.Wait()
}

func TestARedirectIsAFailure(t *testing.T) {
	f := newFleet(t, budgetRule(80))
	f.hook.status = http.StatusFound
	f.used = 900
	f.step(f.gateway("one"))
	if len(f.hook.bodies) != 1 {
		t.Errorf("%d calls, want one that is not followed", len(f.hook.bodies))
	}
}

func TestAddressesOfThisNetworkAreRefused(t *testing.T) {
	for address, want := range map[string]bool{
		"93.184.216.34": true, "2606:2800:220:1::1": true, "172.32.0.1": true,
		"127.0.0.1": false, "127.9.9.9": false, "10.0.0.1": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false,
		"0.0.0.0": false, "0.1.2.3": false, "100.64.0.1": false, "224.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "fe80::1": false, "fc00::1": false, "fd12::1": false, "ff02::1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "64:ff9b::a00:1": false, "2002:a00:1::": false, "fe80::1%eth0": false,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: got %t, want %t", address, got, want)
		}
	}
	h := newHook(t)
	for _, url := range []string{h.URL, strings.Replace(h.URL, "127.0.0.1", "localhost", 1), strings.Replace(h.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1)} {
		err := Receiver{Name: "ops", URL: url, Format: JSON}.send(t.Context(), Alert{})
		if !errors.Is(err, errPrivate) || strings.Contains(err.Error(), url) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if len(h.bodies) != 0 {
		t.Error("it was called")
	}
}

func TestSlackGetsAText(t *testing.T) {
	body, err := Receiver{Format: Slack, Secret: "hush"}.body(Alert{Text: "A \"text\"."})
	if err != nil || string(body) != `{"text":"A \"text\"."}` {
		t.Errorf("got %s, %v", body, err)
	}
}

func TestAForecastWaitsForAPartOfThePeriod(t *testing.T) {
	for _, s := range []struct {
		what string
		day  int
		used int64
		told bool
	}{
		{"nothing is known on the first day", 1, 900, false},
		{"half in a third", 11, 500, true},
		{"as much as of the time", 16, 499, false},
		{"spent is not soon", 20, 1000, false},
		{"nothing used", 20, 0, false},
	} {
		f := newFleet(t, Rule{Name: "soon", On: Forecast, To: []string{"ops"}})
		f.now, f.used = time.Date(2026, 11, s.day, 0, 0, 0, 0, time.UTC), s.used
		f.step(f.gateway("one"))
		if got := len(f.hook.got) == 1; got != s.told {
			t.Errorf("%s: got %v", s.what, f.hook.got)
		}
	}
}

func TestRefusalsAreToldOnceInEachSpan(t *testing.T) {
	f := newFleet(t, Rule{Name: "refused", On: Refusals, Limits: []string{"team/*/*"}, Above: 100, Within: 5 * time.Minute, To: []string{"ops"}})
	f.refuse = map[string]int64{"team/search/tpm": 101, "team/ads/tpm": 100, "gateway/all": 1000}
	one, two := f.gateway("one"), f.gateway("two")
	for range 3 {
		f.step(one)
		f.step(two)
	}
	if len(f.hook.got) != 1 || f.hook.got[0].Limit != "team/search/tpm" || f.hook.got[0].Used != "101" {
		t.Errorf("got %+v", f.hook.got)
	}
	f.now = f.now.Add(5 * time.Minute)
	f.step(one)
	f.hook.wants(t, "five minutes later", 100, 100)
}

func TestAProviderMustBeDownForAWhile(t *testing.T) {
	f := newFleet(t, Rule{Name: "down", On: ProviderDown, For: time.Minute, To: []string{"ops"}})
	one, two := f.gateway("one"), f.gateway("two")
	for minute, state := range []struct {
		down []string
		told int
	}{{[]string{"openai"}, 0}, {nil, 0}, {[]string{"openai"}, 0}, {[]string{"openai"}, 1}, {[]string{"openai"}, 1}} {
		f.down = state.down
		f.step(one)
		f.step(two)
		if len(f.hook.got) != state.told {
			t.Errorf("minute %d: told %d times, want %d", minute, len(f.hook.got), state.told)
		}
		f.now = f.now.Add(time.Minute)
	}
}

func TestAKeyThatExpiresSoonIsTold(t *testing.T) {
	f := newFleet(t, Rule{Name: "keys", On: KeyExpires, Before: 7 * 24 * time.Hour, To: []string{"ops"}})
	f.keys = map[string]time.Time{"soon": clock.AddDate(0, 0, 7), "later": clock.AddDate(0, 0, 8), "over": clock.Add(-time.Hour)}
	a := f.gateway("one")
	f.step(a)
	f.step(a)
	if len(f.hook.got) != 1 || f.hook.got[0].Limit != "key/soon" {
		t.Errorf("got %+v", f.hook.got)
	}
}
