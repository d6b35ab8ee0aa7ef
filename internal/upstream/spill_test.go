package upstream

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/fault"
)

// spilling runs a steady load for two minutes at two targets of one order each,
// and returns how many calls each served in the second minute, how many were
// refused in it, and the longest wait.
func spilling(t *testing.T, gap time.Duration, change func(*Job, *Provider, *Provider)) (first, second, refused int, longest time.Duration, w *watcher) {
	t.Helper()
	w = &watcher{}
	synctest.Test(t, func(t *testing.T) {
		limited := func(p *Provider) { p.Limits.RequestsPerMinute, p.MaxWait = 600, 10*time.Second }
		a, b := provider("ptu", limited), provider("paygo", limited)
		c := client(t, newMemory(), &script{}, w, a, b)
		var mu sync.Mutex
		var calls sync.WaitGroup
		begin := time.Now()
		for i := 0; time.Since(begin) < 2*time.Minute; i++ {
			counts := time.Since(begin) >= time.Minute
			calls.Go(func() {
				j := job(fmt.Sprint("r", i), Target{Provider: a, Order: 1, Weight: 1}, Target{Provider: b, Order: 2, Weight: 1})
				if change != nil {
					change(&j, a, b)
				}
				start := time.Now()
				r, err := c.Do(t.Context(), j)
				mu.Lock()
				defer mu.Unlock()
				if counts {
					longest = max(longest, time.Since(start))
				}
				switch {
				case err != nil && fault.From(err).Code != fault.UpstreamCapacity:
					t.Error(err)
				case err != nil && counts:
					refused++
				case err != nil:
				default:
					if counts && r.Target.Provider == a {
						first++
					} else if counts {
						second++
					}
					whole(t, r)
					if err := r.Close(); err != nil {
						t.Error(err)
					}
				}
			})
			time.Sleep(gap)
		}
		calls.Wait()
	})
	return first, second, refused, longest, w
}

// While the first order has room nothing goes to the second; what is more goes
// there at once, as far as the second has room.
func TestACallGoesToTheNextOrderAsSoonAsItWouldWait(t *testing.T) {
	for _, s := range []struct {
		perMinute   int
		first, last [2]int // of the calls of a minute, at least and at most
		longest     time.Duration
	}{
		{480, [2]int{475, 481}, [2]int{0, 5}, 100 * time.Millisecond},
		{900, [2]int{570, 605}, [2]int{295, 330}, 200 * time.Millisecond},
		{1150, [2]int{570, 605}, [2]int{545, 580}, 200 * time.Millisecond},
	} {
		first, second, refused, longest, w := spilling(t, time.Minute/time.Duration(s.perMinute), nil)
		t.Logf("%d calls a minute: %d and %d, %d refused, longest %v", s.perMinute, first, second, refused, longest)
		if first < s.first[0] || first > s.first[1] || second < s.last[0] || second > s.last[1] || refused > 0 || longest > s.longest {
			t.Errorf("%d calls a minute: %d at the first and %d at the second, %d refused, the longest wait %v", s.perMinute, first, second, refused, longest)
		}
		if (len(w.spilled) > 10) != (s.perMinute > 600) {
			t.Errorf("%d calls a minute: %d are told as spilled", s.perMinute, len(w.spilled))
		}
	}
}

// A call waits for the first order as long as the model allows before it spills.
func TestACallWaitsUpToSpillAfter(t *testing.T) {
	_, second, refused, longest, _ := spilling(t, time.Minute/620, func(j *Job, _, _ *Provider) { j.SpillAfter = 2 * time.Second })
	if second > 40 || refused > 0 || longest > 2500*time.Millisecond || longest < time.Second {
		t.Errorf("%d at the second, %d refused, the longest wait %v, want few and about 2 s", second, refused, longest)
	}
}

// What has no room anywhere waits where it is served soonest.
func TestACallWaitsWhereItsTurnComesSoonest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := func(p *Provider) { p.MaxWait = time.Minute }
		a, b := provider("ptu", limited), provider("paygo", limited)
		a.Limits.RequestsPerMinute, b.Limits.RequestsPerMinute = 6, 60
		c := client(t, newMemory(), &script{}, &watcher{}, a, b)
		for i := range 4 {
			r, err := c.Do(t.Context(), job(fmt.Sprint("r", i), Target{Provider: a, Order: 1, Weight: 1}, Target{Provider: b, Order: 2, Weight: 1}))
			if err != nil {
				t.Fatal(err)
			}
			whole(t, r)
			if i == 3 && r.Target.Provider != b {
				t.Errorf("it waited %v at %s", r.QueueWait, r.Target.Provider.Name)
			}
			_ = r.Close() // it was read
		}
	})
}
