package blackbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"llmgw/internal/gatewaytest"
)

// chaosSeed is the environment variable that repeats a run's choices.
const chaosSeed = "LLMGW_CHAOS_SEED"

// chaosTime is how long the calls of a case come, busyTime how long if they are
// to be granted from leases: a caller must have been busy for two seconds.
const (
	chaosTime = 1500 * time.Millisecond
	busyTime  = 4500 * time.Millisecond
)

// chaosAmount is the case's budget: more than it can use.
const chaosAmount = 1_000_000_000

// TestTheBooksAreRightWhateverHappens lets clients of every kind come while the
// world around the gateways breaks, and then looks at the books. What a client
// saw whole must be charged as the provider said, anything else no more than
// what was reserved for it.
func TestTheBooksAreRightWhateverHappens(t *testing.T) {
	if testing.Short() {
		t.Skip("its cases take some forty seconds, and each a Redis of its own")
	}
	for _, s := range []struct {
		what   string
		faults []func(*chaos) // each breaks something once, and mends it
		every  time.Duration
		lost   loss
	}{
		{"the configuration changes", []func(*chaos){(*chaos).reconfigure}, 200 * time.Millisecond, nothing},
		{"the store stalls", []func(*chaos){(*chaos).stallStore, (*chaos).forgetScripts, (*chaos).fillStore}, 200 * time.Millisecond, nothing},
		{"the store loses its data", []func(*chaos){(*chaos).loseData, (*chaos).killStore}, 500 * time.Millisecond, counters},
		{"a gateway is stopped", []func(*chaos){(*chaos).stopGateway}, 300 * time.Millisecond, metrics},
		{"a gateway is killed", []func(*chaos){(*chaos).killGateway}, 500 * time.Millisecond, underWay},
	} {
		t.Run(s.what, func(t *testing.T) {
			c := newChaos(t, 12, s.lost)
			before := c.goroutines()
			c.run(s.faults, s.every, chaosTime)
			c.judge(s.lost, before)
		})
		t.Run(s.what+", with leases", func(t *testing.T) {
			c := newChaos(t, 400, s.lost)
			before := c.goroutines()
			c.run(s.faults, s.every, busyTime)
			c.judge(s.lost, before)
		})
	}
}

// loss is what a case's faults destroy, and the books cannot be held against.
type loss int

const (
	nothing  loss = iota
	counters      // in the store
	metrics       // of a gateway
	underWay      // that, and what was under way in it
)

// chaos is a world, and what its clients saw.
type chaos struct {
	*world
	setup  setup
	rand   *rand.Rand // of the faults alone
	seed   uint64
	slots  int
	faults int

	mu      sync.Mutex
	calls   int
	least   int64          // what must be charged: what clients saw whole
	most    int64          // what may be charged
	answers map[string]int // by status, and the gateway's code
}

func newChaos(t *testing.T, slots int, lost loss) *chaos {
	reclaim := "1500ms"
	if lost == nothing { // a gateway that is only slow must not be taken for dead
		reclaim = "10s"
	}
	seed := rand.Uint64()
	if given, err := strconv.ParseUint(os.Getenv(chaosSeed), 10, 64); err == nil {
		seed = given
	}
	t.Logf("%s=%d", chaosSeed, seed)
	c := &chaos{slots: slots, seed: seed, rand: rand.New(rand.NewPCG(seed, 0)), answers: map[string]int{}}
	c.setup = setup{
		gateways: 2, redis: true, redisKey: "timeout: 300ms", store: "heartbeat: 200ms\nreclaim_after: " + reclaim,
		limits: fmt.Sprintf("%s\n{name: slots, unit: concurrency, amount: %d, on_exceed: wait, max_wait: 500ms}\n{name: tpm, unit: tokens, amount: 100M, per: minute}",
			monthly("budget", "tokens", chaosAmount), slots),
		provider: "timeouts: {connect: 1s, first_byte: 1s, idle: 500ms}\nretries: {attempts: 1}\nlimits: {requests_per_minute: 30000, concurrency: 10}\nmax_wait: 300ms",
	}
	c.world = start(t, c.setup)
	return c
}

// run lets clients come for so long while one fault after the other is done.
func (c *chaos) run(faults []func(*chaos), every, long time.Duration) {
	ctx, cancel := context.WithTimeout(c.t.Context(), long)
	defer cancel()
	var clients sync.WaitGroup
	for i := range 16 {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(c.seed, uint64(i+1)))
			for n := 0; ctx.Err() == nil; n++ {
				c.call(r, fmt.Sprintf("%d", i*100_000+n))
			}
		})
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			faults[c.rand.IntN(len(faults))](c)
			c.faults++
			continue
		case <-ctx.Done():
		}
		break
	}
	clients.Wait()
}

// The output of a chaotic call: what the provider says, and the most it may be.
const (
	chaosInput  = 20
	chaosOutput = 30
	chaosMax    = 40
)

// call makes one call of a random kind and notes what its client saw.
func (c *chaos) call(r *rand.Rand, tag string) {
	fate := []string{"", "", "", "-every2ms", "-wait20ms", "-hold30ms", "-cut3", "-hang2", "-hang", "-fail500", "-fail429x1", "-drop", "-err1", "-nousage", "-gzip", "-bytes", "-badjson", "-comments"}
	model := fmt.Sprintf("sim-in%d-out%d%s-tag%s", chaosInput, chaosOutput, fate[r.IntN(len(fate))], tag)
	stream := r.IntN(3) > 0
	body := ask(model, fmt.Sprintf(`"max_tokens":%d`, chaosMax), fmt.Sprintf(`"stream":%v`, stream))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch r.IntN(6) {
	case 0: // it leaves at any moment, before the answer or in it
		time.AfterFunc(time.Duration(r.IntN(60))*time.Millisecond, cancel)
	case 1: // it never sends all of its body
		c.half(ctx, r, body)
		return
	}
	status, code, answer, err := c.ask(ctx, r, body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	c.answers[strings.TrimSpace(fmt.Sprint(status, " ", code))]++
	most := int64(2 * (chaosInput + promptTokens + chaosMax)) // its tries are two
	switch {
	case err == nil && status == http.StatusOK && !strings.Contains(model, "-nousage") && !strings.Contains(model, "-badjson"):
		if !stream || bytes.Contains(answer, []byte("[DONE]")) {
			c.least += chaosInput + chaosOutput
			c.most += chaosInput + chaosOutput
			return
		}
		c.most += most
	case err == nil && status >= 400:
	default:
		c.most += most
	}
}

// ask sends a call to any gateway and reads the answer, at any pace.
func (c *chaos) ask(ctx context.Context, r *rand.Rand, body string) (status int, code string, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.all[r.IntN(len(c.all))].URL+chat, strings.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/json")
	if r.IntN(8) == 0 {
		req.Header.Set("Idempotency-Key", strconv.Itoa(r.IntN(3)))
	}
	resp, err := chaosClient.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read as far as the client wanted
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header.Get("X-LLMGW-Error-Code"), answer, err
}

// half sends a part of a request and leaves.
func (c *chaos) half(ctx context.Context, r *rand.Rand, body string) {
	pipe, w := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.all[r.IntN(len(c.all))].URL+chat, pipe)
	if err != nil {
		c.t.Error(err)
		return
	}
	req.ContentLength = int64(len(body))
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/json")
	part := body[:r.IntN(len(body))]
	go func() {
		_, _ = io.WriteString(w, part) // the gateway may be gone
		_ = w.CloseWithError(io.ErrUnexpectedEOF)
	}()
	if resp, err := chaosClient.Do(req); err == nil {
		_ = resp.Body.Close() // only that it comes
	}
}

var chaosClient = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}}

func (c *chaos) redisCommand(args ...string) {
	cmd := exec.Command("redis-cli", append([]string{"-p", strconv.Itoa(c.redis.Port)}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Errorf("redis-cli %v: %v: %s", args, err, out)
	}
}

// pauseUpTo lets a fault last for a random part of d.
func (c *chaos) pauseUpTo(d time.Duration) {
	<-time.After(time.Duration(c.rand.Int64N(int64(d))))
}

func (c *chaos) stallStore() {
	c.redis.Pause()
	c.pauseUpTo(600 * time.Millisecond)
	c.redis.Resume()
}

func (c *chaos) forgetScripts() { c.redisCommand("SCRIPT", "FLUSH") }

func (c *chaos) fillStore() {
	c.redisCommand("CONFIG", "SET", "maxmemory", "1")
	c.pauseUpTo(400 * time.Millisecond)
	c.redisCommand("CONFIG", "SET", "maxmemory", "0")
}

func (c *chaos) loseData() { c.redisCommand("FLUSHALL") }

func (c *chaos) killStore() {
	c.redis.Kill()
	c.pauseUpTo(500 * time.Millisecond)
	c.redis.Restart(c.t)
}

func (c *chaos) stopGateway() {
	if code := c.all[1].Stop(); code != 0 {
		c.t.Errorf("the gateway ended with %d:\n%s", code, c.all[1].Log())
	}
	c.all[1].Restart()
}

func (c *chaos) killGateway() {
	c.all[1].Kill()
	c.pauseUpTo(300 * time.Millisecond)
	c.all[1].Restart()
}

// reconfigure changes limits, takes a provider, a team and its key away, or
// brings them back, at both gateways.
func (c *chaos) reconfigure() {
	s := c.setup
	s.limits = strings.Replace(s.limits, "100M", strconv.Itoa(50+c.rand.IntN(100))+"M", 1)
	s.limits = strings.Replace(s.limits, fmt.Sprintf("amount: %d,", c.slots), fmt.Sprintf("amount: %d,", c.slots*(8+c.rand.IntN(12))/12), 1)
	s.provider = strings.Replace(s.provider, "concurrency: 10", "concurrency: "+strconv.Itoa(6+c.rand.IntN(10)), 1)
	config := s.config(c.world)
	switch c.rand.IntN(4) {
	case 0: // the team is renamed, and with it its key's
		config = strings.Replace(config, "- name: search\n", "- name: renamed\n", 1)
	case 1: // the key goes
		config = strings.Replace(config, gatewaytest.SHA256(secret), gatewaytest.SHA256("gone"), 1)
	case 2: // the provider is another
		config = strings.ReplaceAll(strings.Replace(config, "- name: sim\n", "- name: sim2\n", 1), "{provider: sim}", "{provider: sim2}")
	}
	for _, g := range c.all {
		g.WriteConfig(config)
		g.Signal(syscall.SIGHUP)
	}
}

func (c *chaos) goroutines() float64 {
	most := 0.0
	for _, g := range c.all {
		most = max(most, g.Metrics().Sum("go_goroutines"))
	}
	return most
}

// judge looks at the books when all is calm again.
func (c *chaos) judge(lost loss, before float64) {
	t := c.t
	chaosClient.CloseIdleConnections()
	c.restore()
	var budget gatewaytest.Limit
	for _, g := range c.all {
		g.Eventually("nothing in flight and nothing open", 15*time.Second, func() bool {
			m := g.Metrics()
			return m.Sum("llmgw_reservations_open") == 0 && m.Sum("llmgw_inflight_requests") == 0 && m.Sum("llmgw_store_up") == 1
		})
	}
	c.Eventually("all limits without anything open", 15*time.Second, func() bool {
		for _, l := range c.Team("search").Limits {
			if l.Name == "budget" {
				budget = l
			}
			if l.Open != 0 || l.Unit == "concurrency" && l.Remaining != l.Amount {
				return false
			}
		}
		return true
	})
	if lost == nothing { // what was spent without the store may still be on its way to it
		c.Eventually("the store has what the gateways counted", 15*time.Second, func() bool { return c.spent() == c.counted("search") })
		budget.Remaining = chaosAmount - float64(c.spent())
	}
	used := int64(chaosAmount - budget.Remaining)
	t.Logf("%d calls %v, %d faults; used %d of at least %d and at most %d", c.calls, c.answers, c.faults, used, c.least, c.most)
	var counted, here int64
	for _, g := range c.all {
		m := g.Metrics()
		t.Logf("from leases: %v", m.Sum("llmgw_reservations_leased_total"))
		for _, kind := range []string{"input", "output"} {
			counted += int64(m.Sum("llmgw_tokens_total", "kind", kind))
			here += int64(m.Sum("llmgw_tokens_total", "kind", kind, "team", "search"))
		}
		log := g.Log()
		for _, bad := range []string{"DATA RACE", "panic", "sk-provider", secret} {
			if i := strings.Index(log, bad); i >= 0 {
				t.Errorf("the log holds %q: %.2000s", bad, log[max(0, i-500):])
			}
		}
		g.Eventually("as few goroutines as at the start", 15*time.Second, func() bool {
			chaosClient.CloseIdleConnections()                   // those of this case that ended late, beside other cases' calls
			return g.Metrics().Sum("go_goroutines") <= before+20 // connections to the provider and the store are kept
		})
	}
	if used > c.most || counted > c.most {
		t.Errorf("used %d, the gateways counted %d, but all calls together may have %d", used, counted, c.most)
	}
	if lost < metrics && counted < c.least {
		t.Errorf("the gateways counted %d, but clients got %d", counted, c.least)
	}
	if lost == metrics && used < c.least {
		t.Errorf("the store has used %d, but clients got %d", used, c.least)
	}
	if lost == nothing && here != used {
		t.Errorf("the store has used %d, the gateways counted %d", used, here)
	}
}

// spent is what the store says that the team has used.
func (c *chaos) spent() int64 {
	for _, l := range c.Team("search").Limits {
		if l.Name == "budget" {
			return int64(chaosAmount - l.Remaining)
		}
	}
	c.t.Fatal("the team has no budget")
	return 0
}

// counted is what the gateways have counted for the team.
func (c *chaos) counted(team string) (n int64) {
	for _, g := range c.all {
		m := g.Metrics()
		n += int64(m.Sum("llmgw_tokens_total", "kind", "input", "team", team) + m.Sum("llmgw_tokens_total", "kind", "output", "team", team))
	}
	return n
}

// restore puts the case's configuration back and waits until it is in force.
func (c *chaos) restore() {
	config := c.setup.config(c.world)
	for _, g := range c.all {
		g.WriteConfig(config)
		g.Signal(syscall.SIGHUP)
		g.Eventually("the first configuration again", 10*time.Second, func() bool {
			a := g.Admin(http.MethodGet, "/admin/v1/teams/search", "")
			return a.Status == http.StatusOK && strings.Contains(a.Body, fmt.Sprintf(`"amount":%d,`, c.slots))
		})
	}
}
