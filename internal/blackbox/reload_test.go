package blackbox

import (
	"strings"
	"syscall"
	"testing"
)

// What a reload keeps and what begins anew, in both stores: a counter is its
// limit's place, name, unit and period (E7).
func TestE7AReloadKeepsWhatWasUsedWhereTheLimitIsTheSame(t *testing.T) {
	const month = "{name: edge, unit: tokens, amount: 1000, per: month}"
	const hour = "{name: edge, unit: tokens, amount: 1000, per: hour}"
	for _, s := range []struct {
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
	} {
		for store, redis := range map[string]bool{"memory": false, "redis": true} {
			t.Run(s.what+" in "+store, func(t *testing.T) {
				set := setup{redis: redis, limits: s.from}
				w := start(t, set)
				if a := w.Post(secret, chat, ask("sim-in100-out300", bound(900))); a.Status != 200 {
					t.Fatalf("got %d\n%s", a.Status, a.Body)
				}
				w.Eventually("settled", eventually, func() bool { return w.Team("search").Limits[0].Open == 0 })
				w.WriteConfig(strings.Replace(set.config(w), s.from, s.to, 1))
				w.Signal(syscall.SIGHUP)
				w.Eventually("as the new limit has it", eventually, func() bool {
					got := w.Team("search").Limits[0].Remaining
					return got >= s.left && got < s.left+10 // an hour's limit gains one each few seconds
				})
				w.settled()
			})
		}
	}
}
