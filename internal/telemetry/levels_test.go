package telemetry

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestLevelsAreReadOnceASecondForAllScrapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestMetrics(t)
		var reads atomic.Int64
		m.LimitLevels(func(context.Context) []Level {
			time.Sleep(10 * time.Millisecond)
			return []Level{{"team", "search", "tpm", "tokens", float64(reads.Add(1)), 100, 100, "minute", "enforce"}}
		})
		for _, s := range []struct {
			what  string
			after time.Duration
			reads int64
		}{
			{"the first scrapes share a read", 0, 1},
			{"half a second later they have it still", 500 * time.Millisecond, 1},
			{"after a second they read again", 500 * time.Millisecond, 2},
		} {
			time.Sleep(s.after)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if got := scrape(t, m); !strings.Contains(got, `llmgw_limit_remaining{mode="enforce",name="tpm"`) {
						t.Errorf("%s: no level is shown", s.what)
					}
				})
			}
			all.Wait()
			if got := reads.Load(); got != s.reads {
				t.Errorf("%s: %d reads, want %d", s.what, got, s.reads)
			}
		}
	})
}

func TestAScrapeDoesNotHangWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestMetrics(t)
		var hang, calls atomic.Int64
		m.LimitLevels(func(ctx context.Context) []Level {
			calls.Add(1)
			if hang.Load() == 1 {
				<-ctx.Done() // as a client of a stopped Redis does
				time.Sleep(10 * time.Second)
				return nil
			}
			return []Level{{"team", "search", "tpm", "tokens", 7, 100, 100, "minute", "enforce"}}
		})
		if got := scrape(t, m); !strings.Contains(got, `llmgw_limit_remaining{mode="enforce",name="tpm",owner="search",per="minute",scope="team",unit="tokens"} 7`) {
			t.Fatal("no level at first")
		}
		hang.Store(1)
		time.Sleep(2 * time.Second)
		for range 3 {
			began := time.Now()
			got := scrape(t, m)
			if took := time.Since(began); took > levelsWait {
				t.Errorf("a scrape took %v", took)
			}
			if strings.Contains(got, "llmgw_limit_remaining{") {
				t.Error("a level of seconds ago is shown as of now")
			}
			if !strings.Contains(got, "llmgw_limit_amount{") {
				t.Error("the amount, which needs no store, is gone")
			}
		}
		if got := calls.Load(); got != 2 {
			t.Errorf("%d reads, want 2: none begins while one hangs", got)
		}
		hang.Store(0)
		time.Sleep(20 * time.Second)
		if got := scrape(t, m); !strings.Contains(got, "llmgw_limit_remaining{") {
			t.Error("levels do not come back with the store")
		}
	})
}

func TestLevelsBeyondTheBoundShareNoSeries(t *testing.T) {
	m := NewMetrics(Build{}, 2)
	m.LimitLevels(func(context.Context) []Level {
		return []Level{{"team", "a", "tpm", "tokens", 1, 1, 1, "minute", "enforce"}, {"team", "b", "tpm", "tokens", 2, 2, 2, "minute", "enforce"},
			{"team", "c", "tpm", "tokens", 3, 3, 3, "minute", "enforce"}, {"team", "d", "tpm", "tokens", 4, 4, 4, "minute", "enforce"}}
	})
	got := scrape(t, m)
	if n := strings.Count(got, "llmgw_limit_remaining{"); n != 3 {
		t.Errorf("%d series, want a, b and other", n)
	}
}
