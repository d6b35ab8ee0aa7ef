package blackbox

import (
	"fmt"
	"syscall"
	"testing"

	"llmgw/internal/gatewaytest"
	"llmgw/internal/redistest"
)

// What a reload keeps and what begins anew, in both stores: a counter is its
// limit's place, name, unit and period (E7).
func TestE7AReloadKeepsWhatWasUsedWhereTheLimitIsTheSame(t *testing.T) {
	const month = "{name: edge, unit: tokens, amount: 1000, per: month}"
	const hour = "{name: edge, unit: tokens, amount: 1000, per: hour}"
	cases := []struct {
		what, from, to string
		left           float64 // of it, after 400 were used under from
	}{
		{"a larger month", month, "{name: edge, unit: tokens, amount: 3000, per: month}", 2600},
		{"a month smaller than what was used", month, "{name: edge, unit: tokens, amount: 300, per: month}", -100},
		{"a bucket smaller than what was used", hour, "{name: edge, unit: tokens, amount: 300, per: hour}", -100},
		{"a larger burst", hour, "{name: edge, unit: tokens, amount: 1000, per: hour, burst: 2000}", 1600},
		{"another algorithm for an hour", hour, "{name: edge, unit: tokens, amount: 1000, per: hour, algorithm: sliding_window}", 600},
		{"a list for an hour", hour, "{name: edge, unit: tokens, amount: 1000, per: hour, algorithm: sliding_log}", 600},
		{"another algorithm for a month", month, "{name: edge, unit: tokens, amount: 1000, per: month, algorithm: sliding_window}", 600},
		{"into shadow", month, "{name: edge, unit: tokens, amount: 1000, per: month, mode: shadow}", 600},
		{"other policies", month, "{name: edge, unit: tokens, amount: 1000, per: month, when_store_down: closed, on_exceed: wait, max_wait: 1s}", 600},
		{"another name", month, "{name: edge2, unit: tokens, amount: 1000, per: month}", 1000},
		{"another unit", month, "{name: edge, unit: output_tokens, amount: 1000, per: month}", 1000},
		{"another period", month, "{name: edge, unit: tokens, amount: 1000, per: week}", 1000},
	}
	for store, inRedis := range map[string]bool{"memory": false, "redis": true} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, provider: gatewaytest.StartProvider(t, setup{}.fake)}
			if inRedis {
				w.redis = redistest.Start(t)
			}
			// Each case has a team of its own.
			before, after := setup{redis: inRedis}.config(w), setup{redis: inRedis}.config(w)
			team := func(i int, limit string) string {
				return fmt.Sprintf("  - {name: team-%d, limits: [%s], keys: [{id: key-%d, sha256: %s}]}\n", i, limit, i, gatewaytest.SHA256(fmt.Sprint("sk-llmgw-", i)))
			}
			for i, s := range cases {
				before += team(i, s.from)
				after += team(i, s.to)
			}
			w.Gateway = gatewaytest.Start(t, before)
			limit := func(i int) gatewaytest.Limit { return w.Team(fmt.Sprint("team-", i)).Limits[0] }
			for i, s := range cases {
				if a := w.Post(fmt.Sprint("sk-llmgw-", i), chat, ask("sim-in100-out300", bound(900))); a.Status != 200 {
					t.Fatalf("%s: got %d\n%s", s.what, a.Status, a.Body)
				}
				w.Eventually(s.what+": settled", eventually, func() bool { return limit(i).Open == 0 })
			}
			w.WriteConfig(after)
			w.Signal(syscall.SIGHUP)
			w.Eventually("reloaded", eventually, func() bool { return limit(0).Amount == 3000 })
			for i, s := range cases {
				// An hour's limit gains one each few seconds.
				if got := limit(i).Remaining; got < s.left || got >= s.left+10 {
					t.Errorf("%s: got %v left, want %v", s.what, got, s.left)
				}
			}
		})
	}
}
