package blackbox

import (
	"bufio"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"llmgw/internal/gatewaytest"
)

// moment is a point of a request's way at which its gateway is killed.
type moment struct {
	what   string
	model  string
	frozen bool // Redis is, from before the request on
	// reach waits until the request that ask began is there. It returns the least
	// and the most that may be charged.
	reach func(t *testing.T, w *world, g *gatewaytest.Gateway, ask func() *atomic.Int64) (least, most int)
}

// A gateway that is killed, wherever its request is, leaves nothing open, and the
// request is charged within the bound that is promised.
func TestD13S17AGatewayKilledAtAnyMomentChargesWithinTheBound(t *testing.T) {
	if testing.Short() {
		t.Skip("its cases take half a minute; TestD13AKilledGatewaysReservationsComeBack kills one, too")
	}
	const reserved = 1000
	reported := func(g *gatewaytest.Gateway) float64 {
		return g.Metrics().Sum("llmgw_store_seconds_count", "op", "report")
	}
	for _, m := range []moment{
		{"while it reserves: nothing was sent", "sim-out5", true, func(_ *testing.T, _ *world, g *gatewaytest.Gateway, ask func() *atomic.Int64) (int, int) {
			ask()
			g.Eventually("on its way", eventually, func() bool { return g.Metrics().Sum("llmgw_inflight_requests") == 1 })
			return 0, 0
		}},
		{"when the request was sent: its input", "sim-hang", false, func(_ *testing.T, w *world, g *gatewaytest.Gateway, ask func() *atomic.Int64) (int, int) {
			ask()
			g.Eventually("told", eventually, func() bool { return reported(g) > 0 && w.provider.Stats().InFlight == 1 })
			return promptTokens, promptTokens
		}},
		{"in the middle of a stream: all that came", "sim-out10000-every20ms", false, func(_ *testing.T, _ *world, g *gatewaytest.Gateway, ask func() *atomic.Int64) (int, int) {
			came := ask()
			before := 0.0
			g.Eventually("sent", eventually, func() bool { before = reported(g); return before > 0 && came.Load() > 0 })
			g.Eventually("told of what came", 2*eventually, func() bool { return reported(g) > before })
			return promptTokens + int(came.Load()), reserved
		}},
		{"while it settles: what it used, or nothing", "sim-in10-out20-wait500ms", false, func(_ *testing.T, w *world, g *gatewaytest.Gateway, ask func() *atomic.Int64) (int, int) {
			ask()
			g.Eventually("sent", eventually, func() bool { return w.provider.Stats().InFlight == 1 })
			w.redis.Pause()
			g.Eventually("ended", eventually, func() bool { return g.Metrics().Sum("llmgw_inflight_requests") == 0 })
			return 0, 30
		}},
	} {
		t.Run(m.what, func(t *testing.T) {
			w := start(t, setup{
				gateways: 2, redis: true, store: "reclaim_after: 3s",
				limits: tokensLimit() + "\n{name: slots, unit: concurrency, amount: 3}",
			})
			killed := w.all[0]
			w.all, w.Gateway = w.all[1:], w.all[1]
			if m.frozen {
				w.redis.Pause()
			}
			least, most := m.reach(t, w, killed, func() *atomic.Int64 { return begin(killed, ask(m.model, streamed, bound(reserved))) })
			killed.Kill()
			w.redis.Resume()
			w.Eventually("what it held is back", 2*eventually, func() bool {
				slots, held := w.Limit("search", "slots").Remaining, w.Limit("search", "tokens").Open
				return slots == 3 && held == 0 && w.redis.Command(t, "KEYS", "*:open:*") == ""
			})
			if got := w.spent("tokens"); got < least || got > most {
				t.Errorf("charged %d, want %d to %d", got, least, most)
			}
			if least > 0 { // it was sent: whoever reclaimed it has booked it
				w.Eventually("the usage is what the limit was charged", eventually, func() bool { return booked(w) == w.spent("tokens") })
				if !strings.Contains(w.Log(), `"outcome":"reclaimed"`) || w.Metrics().Sum("llmgw_tokens_total", "team", "search") == 0 {
					t.Errorf("no line or no metric of what was reclaimed:\n%s", w.Log())
				}
			}
			w.settled()
		})
	}
}

// booked is how many tokens the usage report has of team search.
func booked(w *world) int {
	w.t.Helper()
	var doc struct {
		Rows []struct {
			Team   string
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		}
	}
	a := w.Admin("GET", "/admin/v1/usage?group_by=team", "")
	if err := json.Unmarshal([]byte(a.Body), &doc); err != nil {
		w.t.Fatalf("%v: %s", err, a.Body)
	}
	for _, r := range doc.Rows {
		if r.Team == "search" {
			return r.Input + r.Output
		}
	}
	return 0
}

// begin sends a request and reads what comes, until either side breaks off. It
// returns the count of the events with content.
func begin(g *gatewaytest.Gateway, body string) *atomic.Int64 {
	came := new(atomic.Int64)
	go func() {
		resp, err := g.Open(secret, chat, body)
		if err != nil {
			return // the gateway was killed
		}
		defer func() { _ = resp.Body.Close() }() // it was read to its end
		for events := bufio.NewScanner(resp.Body); events.Scan(); {
			if strings.Contains(events.Text(), `"content":"`) && !strings.Contains(events.Text(), `"content":""`) {
				came.Add(1)
			}
		}
	}()
	return came
}
