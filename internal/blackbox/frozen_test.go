package blackbox

import (
	"testing"
	"time"
)

// A gateway that is stopped while Redis is frozen ends within its grace, and what
// its last request used is charged and in the usage report when Redis goes on.
func TestAStopWhileRedisIsFrozenLosesNothingThatWasUsed(t *testing.T) {
	const grace = 3 * time.Second
	w := start(t, setup{
		gateways: 2, redis: true, store: "reclaim_after: 4s", server: "shutdown_grace: 3s",
		limits: tokensLimit() + "\n{name: slots, unit: concurrency, amount: 3}",
	})
	stopped := w.all[0]
	w.all, w.Gateway = w.all[1:], w.all[1]
	begin(stopped, ask("sim-in40-out100-wait1s", streamed, bound(1000)))
	w.Eventually("sent", eventually, func() bool { return w.provider.Stats().InFlight == 1 })
	w.redis.Pause()
	stopped.Eventually("without its store", eventually, func() bool { return stopped.Metrics().Sum("llmgw_store_up") == 0 })
	stopped.Eventually("ended", eventually, func() bool { return stopped.Metrics().Sum("llmgw_inflight_requests") == 0 })
	began := time.Now()
	if code := stopped.Stop(); code != 1 {
		t.Errorf("got exit code %d, want 1: nothing was acknowledged\n%s", code, stopped.Log())
	}
	if took := time.Since(began); took > 3*grace {
		t.Errorf("the stop took %v, with a grace of %v", took, grace)
	}
	w.redis.Resume()
	w.Eventually("the store is back", 2*eventually, func() bool { return w.Metrics().Sum("llmgw_store_up") == 1 })
	w.Eventually("what it held is back", 2*eventually, func() bool {
		slots, held := w.Limit("search", "slots").Remaining, w.Limit("search", "tokens").Open
		return slots == 3 && held == 0 && w.redis.Command(t, "KEYS", "*:open:*") == ""
	})
	stats := w.provider.Stats()
	used := int(stats.InputTokens + stats.OutputTokens)
	if got := w.spent("tokens"); got != used || used < 100 {
		t.Errorf("charged %d, want the %d that were used", got, used)
	}
	w.Eventually("the usage is what was charged", eventually, func() bool { return booked(w) == used })
	w.settled()
}
