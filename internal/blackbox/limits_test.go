package blackbox

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"llmgw/internal/gatewaytest"
	"llmgw/internal/redistest"
)

func TestA10AClientThatKeepsTryingIsNotStarvedByItsRefusals(t *testing.T) {
	w := start(t, setup{limits: "{name: rps, unit: requests, amount: 5, per: second, burst: 20}"}) // a stalled machine does not overflow it
	began, passed, refused := time.Now(), 0, 0
	last, longest := began, 0.0 // the longest that the machine was held up
	for time.Since(began) < 4*time.Second {
		longest, last = max(longest, time.Since(last).Seconds()), time.Now()
		switch a := w.Post(secret, chat, ask("sim-out1")); a.Status {
		case 200:
			passed++
		case 429:
			refused++
		default:
			t.Fatalf("got %d\n%s", a.Status, a.Body)
		}
	}
	took := time.Since(began).Seconds()
	if least, most := int(20+5*(took-2*longest))-2, int(20+5*took)+1; passed < least || passed > most {
		t.Errorf("%d passed and %d were refused in %.1f s, want %d to %d passed", passed, refused, took, least, most)
	}
	if refused < passed/2 {
		t.Errorf("only %d were refused: the client did not keep trying", refused)
	}
	w.settled()
}

func TestE3RequestsAndTokensHaveClocksOfTheirOwn(t *testing.T) {
	w := start(t, setup{limits: "{name: tph, unit: tokens, amount: 1000, per: hour}\n{name: rps, unit: requests, amount: 2, per: second}"})
	for range 2 {
		if a := w.Post(secret, chat, ask("sim-in8-out12", bound(20))); a.Status != 200 {
			t.Fatalf("got %d\n%s", a.Status, a.Body)
		}
	}
	w.Eventually("the requests are back", eventually, func() bool { return w.Limit("search", "rps").Remaining == 2 })
	if got := w.Limit("search", "tph").Remaining; got < 960 || got > 970 {
		t.Errorf("got %v tokens left a second later, want the 960 and what a few seconds of an hour give", got)
	}
	w.settled()
}

func TestE6SpendingDoesNotMoveTheEndOfAPeriod(t *testing.T) {
	w := start(t, setup{limits: monthly("tokens", "tokens", 10_000)})
	end := func() time.Time {
		return time.Now().Add(time.Duration(w.Limit("search", "tokens").ResetMS) * time.Millisecond)
	}
	first := end()
	for range 3 {
		w.Post(secret, chat, ask("sim-in8-out12", bound(100)))
	}
	if got := end(); got.Sub(first).Abs() > time.Minute { // between two clocks
		t.Errorf("the period ends at %v, and before it was spent from at %v", got, first)
	}
	w.settled()
}

func TestE7ALargerLimitOfTheSameNameKeepsWhatWasUsed(t *testing.T) {
	for _, l := range []string{
		"{name: tokens, unit: tokens, amount: 1000, per: month}",
		"{name: tokens, unit: tokens, amount: 1000, per: hour}",
		"{name: tokens, unit: tokens, amount: 1000, per: hour, algorithm: sliding_window}",
	} {
		t.Run(l, func(t *testing.T) {
			s := setup{redis: true, limits: l}
			w := start(t, s)
			w.Post(secret, chat, ask("sim-in100-out300", bound(900)))
			w.Eventually("settled", eventually, func() bool { return w.Limit("search", "tokens").Open == 0 })
			w.WriteConfig(strings.Replace(s.config(w), "amount: 1000", "amount: 3000", 1))
			w.Signal(syscall.SIGHUP)
			w.Eventually("reloaded", eventually, func() bool { return w.Limit("search", "tokens").Amount == 3000 })
			// An hour's limit gives one back each second or so.
			if got := w.Limit("search", "tokens").Remaining; got < 2600 || got > 2610 {
				t.Errorf("got %v left of 3000, want the 400 used kept", got)
			}
			w.settled()
		})
	}
}

// A target is used to the last of its limit before another takes its place.
func TestJ4NoCallIsSentElsewhereBeforeTheLimitIsReached(t *testing.T) {
	t.Parallel()
	w := &world{t: t, provider: gatewaytest.StartProvider(t, setup{}.fake)}
	s := setup{
		provider:  "limits: {concurrency: 3}\nmax_wait: 100ms",
		providers: fmt.Sprintf("{name: spare, dialect: openai, base_url: %s/v1, api_keys: [sk-spare]}", w.provider.URL),
		models:    "{name: routed, prices: {input: 1, output: 1}, targets: [{provider: sim, model: sim-out1-wait700ms}, {provider: spare, model: sim-out1, weight: 0}]}",
	}
	w.all = []*gatewaytest.Gateway{gatewaytest.Start(t, s.config(w))}
	w.Gateway = w.all[0]
	for range 3 {
		if got := count(w.together(3, ask("routed")), 200); got != 3 {
			t.Errorf("got %d of 3 answered", got)
		}
	}
	if first, spare := len(w.provider.Saw("sim-out1-wait700ms")), len(w.provider.Saw("sim-out1")); first != 9 || spare != 0 {
		t.Errorf("the first target had %d calls and the spare %d, want 9 and none: its limit was never exceeded", first, spare)
	}
	w.settled()
}

// Two gateways, small requests that try again at once, and a large one that comes back when it is told to.
func TestS33ALargeRequestIsNotStarvedByWhoeverPolls(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, limits: "{name: tpm, unit: tokens, amount: 12000, per: minute, burst: 600}"})
	small, large := ask("sim-in8-out12", bound(20)), ask("sim-in8-out492", bound(500))
	stop := make(chan struct{})
	var pollers sync.WaitGroup
	defer pollers.Wait()
	defer close(stop)
	for i := range 12 { // of 20 tokens each, many more than the 10 a second that fit
		pollers.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					if _, err := w.all[i%2].Try(secret, chat, small); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	w.Eventually("the limit is reached", eventually, func() bool { return w.Limit("search", "tpm").Remaining < 100 })
	began := time.Now()
	for try := 0; ; try++ {
		a := w.all[try%2].Post(secret, chat, large)
		if a.Status == 200 {
			break
		}
		ms, err := strconv.Atoi(a.Header.Get("Retry-After-Ms"))
		if a.Status != 429 || err != nil {
			t.Fatalf("got %d, retry-after-ms %q\n%s", a.Status, a.Header.Get("Retry-After-Ms"), a.Body)
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("not granted in %v, want about the 5 s that 500 tokens take at half of 200 a second", time.Since(began))
		}
		<-time.After(time.Duration(ms) * time.Millisecond) // what the client was told
	}
	t.Logf("granted after %v", time.Since(began))
}

// Ten thousand calls that end in every way leave nothing behind.
func TestD12TenThousandMixedOutcomesLeaveNothingOpen(t *testing.T) {
	if testing.Short() {
		t.Skip("ten thousand calls take a minute under the race detector: make test runs this")
	}
	const calls = 10_000
	w := start(t, setup{
		redis: true, provider: "retries: {attempts: 0}", server: "on_client_gone: cancel",
		limits: monthly("tokens", "tokens", 1e9) + "\n" + monthly("few", "requests", calls*8/10) + "\n{name: slots, unit: concurrency, amount: 12}",
	})
	bodies := []string{
		ask("sim-in8-out12", bound(100)),
		ask("sim-in8-out12", bound(100), streamed),
		ask("sim-in8-out2-report500", bound(100)),
		ask("sim-fail500", bound(100)),
		ask("sim-fail429", bound(100)),
		ask("sim-drop", bound(100)),
		ask("sim-out40-cut3", bound(100), streamed),
		ask("sim-nousage-out9", bound(100), streamed),
		ask("sim-in8-out12", `"max_tokens":-1`),
	}
	var callers sync.WaitGroup
	var mu sync.Mutex
	ended := map[string]int{}
	for c := range 16 {
		callers.Go(func() {
			for i := c; i < calls; i += 16 {
				how := "broken"
				if i%10 == 9 { // the client leaves in the middle
					if resp, err := w.Open(secret, chat, ask("sim-out40-every1ms", bound(100), streamed)); err == nil {
						resp.Body.Close()
						how = "left"
					}
				} else if a, err := w.Try(secret, chat, bodies[i%len(bodies)]); err == nil {
					how = fmt.Sprint(a.Status)
				}
				mu.Lock()
				ended[how]++
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	t.Logf("ended: %v", ended)
	if ended["200"] == 0 || ended["429"] == 0 || ended["left"] == 0 || ended["broken"] == 0 {
		t.Errorf("the calls did not end in every way: %v", ended)
	}
	w.settled()
	m := w.Metrics()
	used := m.Sum("llmgw_tokens_total", "kind", "input") + m.Sum("llmgw_tokens_total", "kind", "output")
	if got := 1e9 - w.Limit("search", "tokens").Remaining; got != used {
		t.Errorf("%v tokens are charged, %v were used", got, used)
	}
}

// The binary on a cluster of three masters and three replicas: limits of several
// slots hold over two gateways, and a dead master is survived.
func TestTwoGatewaysOnAClusterOfSix(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, 3, 1)
	w := &world{t: t, provider: gatewaytest.StartProvider(t, setup{}.fake), redis: servers[0], books: t.TempDir()}
	s := setup{
		common:   "{name: all, unit: requests, amount: 60, per: month, when_store_down: closed}",
		limits:   monthly("tokens", "tokens", 50*100) + "\n{name: slots, unit: concurrency, amount: 500}",
		redisKey: "timeout: 2s",
	}
	var addrs []string
	for _, server := range servers {
		addrs = append(addrs, fmt.Sprintf("%q", server.Addr))
	}
	config := strings.Replace(s.config(w), fmt.Sprintf("addrs: [%q]", servers[0].Addr), "addrs: ["+strings.Join(addrs, ", ")+"]", 1)
	for range 2 {
		w.all = append(w.all, gatewaytest.Start(t, config))
	}
	w.Gateway = w.all[0]
	if got := count(w.together(100, ask("sim-in8-out30-wait2s", bound(100))), 200); got != 50 {
		t.Errorf("got %d granted by both, want the 50 that the team has tokens for", got)
	}
	w.settled()
	if got := w.Limit("search", "tokens").Remaining; got != 5000-50*38 {
		t.Errorf("got %v tokens left, want %d", got, 5000-50*38)
	}
	for _, server := range servers {
		if strings.HasPrefix(server.Command(t, "role"), "master") {
			server.Kill()
			break
		}
	}
	w.Eventually("calls are granted by the store again", 60*time.Second, func() bool {
		a := w.Post(secret, chat, ask("sim-in8-out30", bound(100)))
		return a.Status == 200 && a.Header.Get("X-LLMGW-Degraded") == ""
	})
	w.settled()
}
