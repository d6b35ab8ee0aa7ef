package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
)

// fakeStore is a Store of epochs and records alone; it may be down, and its clock
// may be wrong.
type fakeStore struct {
	budget.Store
	mu       sync.Mutex
	beats    map[budget.Epoch]time.Time
	fenced   map[budget.Epoch]bool
	records  map[string]record
	settled  []budget.Settlement
	reclaims []time.Time
	sizes    []int // of the batches
	skew     time.Duration
	down     error
	delay    time.Duration // of a heartbeat, whatever its context
	beating  bool
}

type record struct {
	epoch budget.Epoch
	since time.Time
}

func newFakeStore() *fakeStore {
	return &fakeStore{beats: map[budget.Epoch]time.Time{}, fenced: map[budget.Epoch]bool{}, records: map[string]record{}}
}

func (f *fakeStore) lock() func() { f.mu.Lock(); return f.mu.Unlock }

func (f *fakeStore) Heartbeat(_ context.Context, e budget.Epoch) (budget.Beat, error) {
	if f.delay > 0 {
		f.set(func() { f.beating = true })
		time.Sleep(f.delay)
	}
	defer f.lock()()
	f.beating = false
	if f.down != nil {
		return budget.Beat{}, f.down
	}
	b := budget.Beat{Fenced: f.fenced[e], At: time.Now().Add(f.skew).Truncate(time.Millisecond)}
	if !b.Fenced {
		f.beats[e] = time.Now()
	}
	b.Live = len(f.beats)
	return b, nil
}

func (f *fakeStore) Reclaim(_ context.Context, silence time.Duration, limit int) (r budget.Reclaimed, err error) {
	defer f.lock()()
	if f.down != nil {
		return r, f.down
	}
	f.reclaims = append(f.reclaims, time.Now())
	for e, at := range f.beats {
		if time.Since(at) > silence {
			f.fenced[e] = true
			delete(f.beats, e)
			r.Epochs++
		}
	}
	for id, rec := range f.records {
		if !f.fenced[rec.epoch] {
			continue
		}
		if r.Records == limit {
			r.More = true
			break
		}
		delete(f.records, id)
		r.Records++
	}
	f.sizes = append(f.sizes, r.Records)
	return r, nil
}

func (f *fakeStore) OpenIDs(_ context.Context, e budget.Epoch) (map[string]time.Duration, error) {
	defer f.lock()()
	ids := map[string]time.Duration{}
	for id, r := range f.records {
		if r.epoch == e {
			ids[id] = time.Since(r.since)
		}
	}
	return ids, f.down
}

func (f *fakeStore) Settle(_ context.Context, list []budget.Settlement) (out []budget.Settled, err error) {
	defer f.lock()()
	if f.down != nil {
		return nil, f.down
	}
	for _, s := range list {
		_, known := f.records[s.ID]
		delete(f.records, s.ID)
		f.settled = append(f.settled, s)
		out = append(out, budget.Settled{Known: known})
	}
	return out, nil
}

func (f *fakeStore) Retire(_ context.Context, e budget.Epoch) error {
	defer f.lock()()
	if f.down != nil {
		return f.down
	}
	delete(f.beats, e)
	f.fenced[e] = true
	for id, r := range f.records {
		if r.epoch == e {
			delete(f.records, id)
		}
	}
	return nil
}

func (f *fakeStore) open(e budget.Epoch, ids ...string) {
	defer f.lock()()
	for _, id := range ids {
		f.records[id] = record{e, time.Now()}
	}
}

func (f *fakeStore) ids() []string {
	defer f.lock()()
	return slices.Sorted(maps.Keys(f.records))
}

// beat is when e last beat.
func (f *fakeStore) beat(e budget.Epoch) (time.Time, bool) {
	defer f.lock()()
	at, ok := f.beats[e]
	return at, ok
}

func (f *fakeStore) set(change func()) { defer f.lock()(); change() }

// known is the Reservations of a Limiter that knows some ids.
type known map[string]bool

func (k known) StoreCall(string, time.Duration, error) {}

func (k known) Strangers(ids map[string]time.Duration) {
	for id := range k {
		delete(ids, id)
	}
}

// watcher counts what an Observer is told.
type watcher struct {
	mu        sync.Mutex
	reclaimed int
	steps     []time.Duration
}

func (w *watcher) Reservations(_ string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reclaimed += n
}

func (w *watcher) ended() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reclaimed
}

func (w *watcher) ClockStep(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps = append(w.steps, d)
}

func start(t *testing.T, f *fakeStore, instance string, open known) (*Keeper, *watcher) {
	t.Helper()
	w := new(watcher)
	k := New(Config{Store: f, Instance: instance, Observer: w, Logger: slog.New(slog.DiscardHandler)})
	k.Start(open)
	synctest.Wait()
	return k, w
}

func retire(t *testing.T, keepers ...*Keeper) {
	t.Helper()
	for _, k := range keepers {
		if err := k.Retire(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// kill ends a Keeper as a crash would: its loops stop, nothing is retired.
func kill(k *Keeper) {
	k.cancel()
	k.loops.Wait()
}

func TestAKeeperCountsTheLiveGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		a, _ := start(t, f, "a", nil)
		b, _ := start(t, f, "b", nil)
		c, _ := start(t, f, "c", nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := a.Live(); got != 3 {
			t.Errorf("got %d live, want 3", got)
		}
		retire(t, c)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := a.Live(); got != 3 {
			t.Errorf("got %d live 2 s after one has retired, want 3 still: the store may have just come back", got)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := a.Live(); got != 2 {
			t.Errorf("got %d live 12 s after one has retired, want 2", got)
		}
		f.set(func() { f.down = errors.New("away") })
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := a.Live(); got != 2 {
			t.Errorf("got %d live while the store is away, want the 2 that were last told", got)
		}
		f.set(func() { f.down = nil })
		retire(t, a, b)
	})
}

// A store that comes back empty hears of the gateways one by one: those that it
// does not know yet are not gone.
func TestTheNumberOfGatewaysFallsToTheMostThatWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fleet
		const patience = 10 * time.Second
		for _, s := range []struct {
			what        string
			after       time.Duration
			told, wants int
		}{
			{"more are believed at once", 0, 5, 5},
			{"fewer are not", time.Second, 1, 5},
			{"nor others", 8 * time.Second, 4, 5},
			{"but after a while, as many as were told meanwhile", time.Second, 2, 4},
			{"and then again", 9 * time.Second, 2, 4},
			{"if there are no more", time.Second, 2, 2},
		} {
			time.Sleep(s.after)
			f.see(s.told, patience)
			if got := int(f.live.Load()); got != s.wants {
				t.Errorf("%s: got %d, want %d", s.what, got, s.wants)
			}
		}
	})
}

func TestAKeeperBeatsEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		k, _ := start(t, f, "a", nil)
		for range 100 {
			time.Sleep(time.Second)
			synctest.Wait()
			if at, _ := f.beat(k.Epoch()); time.Since(at) != 0 {
				t.Fatalf("got the last beat %v ago, want now", time.Since(at))
			}
		}
		retire(t, k)
	})
}

// D13: whoever lives ends what a crashed gateway left open, within the time
// the configuration says and a few seconds.
func TestWhatACrashedGatewayLeftIsReclaimedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		a, _ := start(t, f, "a", nil)
		b, seen := start(t, f, "b", known{"mine": true})
		f.open(a.Epoch(), "r1", "r2")
		f.open(b.Epoch(), "mine")
		kill(a)
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if got := fmt.Sprint(f.ids()); got != "[mine r1 r2]" {
			t.Errorf("got %v open after 8 s, want all: a might be slow", got)
		}
		time.Sleep(7 * time.Second)
		synctest.Wait()
		if got := fmt.Sprint(f.ids()); got != "[mine]" {
			t.Errorf("got %v open after 15 s, want only b's own", got)
		}
		if seen.ended() != 2 {
			t.Errorf("got %d reported as reclaimed, want 2", seen.ended())
		}
		retire(t, b)
	})
}

func TestARestartedGatewayReclaimsWhatItLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		a, _ := start(t, f, "a", nil)
		f.open(a.Epoch(), "r1")
		kill(a)
		time.Sleep(11 * time.Second)
		again, _ := start(t, f, "a", nil)
		if again.Epoch() == a.Epoch() {
			t.Error("got the epoch of before the restart, want a new one")
		}
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if got := f.ids(); len(got) != 0 {
			t.Errorf("got %v open 8 s after the start, want none", got)
		}
		retire(t, again)
	})
}

func TestAFencedGatewayTakesANewEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		k, _ := start(t, f, "a", nil)
		first := k.Epoch()
		f.set(func() { f.fenced[first] = true; delete(f.beats, first) })
		time.Sleep(time.Second)
		synctest.Wait()
		second := k.Epoch()
		if second == first {
			t.Fatal("got the fenced epoch, want a new one")
		}
		if _, ok := f.beat(second); !ok {
			t.Error("the new epoch was not shown to the store at once")
		}
		if got := k.Renew(first); got != second {
			t.Errorf("got %s from a late renewal of the first, want %s kept", got, second)
		}
		if got := k.Renew(second); got == second {
			t.Error("got the second epoch from its renewal, want a third")
		}
		retire(t, k)
	})
}

// An outage of the store, or a step of its clock, makes all gateways look
// silent at once: the first to be heard must not take the others for dead.
func TestAGatewayIsNotReclaimedForTheStoresOwnSilence(t *testing.T) {
	for what, trouble := range map[string]func(f *fakeStore){
		"the store was away": func(f *fakeStore) {
			f.set(func() { f.down = errors.New("connection refused") })
			time.Sleep(time.Minute)
			f.set(func() { f.down = nil })
		},
		"its clock stepped": func(f *fakeStore) {
			f.set(func() {
				f.skew += time.Hour
				for e, at := range f.beats {
					f.beats[e] = at.Add(-time.Hour) // by its clock, they are so old
				}
			})
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeStore()
				var all []*Keeper
				for i := range 10 {
					k, _ := start(t, f, fmt.Sprint(i), known{fmt.Sprint("r", i): true})
					f.open(k.Epoch(), fmt.Sprint("r", i))
					all = append(all, k)
					time.Sleep(97 * time.Millisecond)
				}
				dead := New(Config{Store: f, Instance: "dead"})
				f.open(dead.Epoch(), "left")
				dead.heartbeat()
				time.Sleep(4 * time.Second)
				for range 5 {
					trouble(f)
					late, _ := start(t, f, "late", known{})
					time.Sleep(4 * time.Second)
					synctest.Wait()
					if got := len(f.ids()); got < 10 {
						t.Fatalf("got %d reservations left, want those of 10 living gateways", got)
					}
					retire(t, late)
				}
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if got := len(f.ids()); got != 10 {
					t.Errorf("got %d reservations left, want 10: the dead one's is still reclaimed", got)
				}
				retire(t, all...)
			})
		})
	}
}

func TestEveryEpochIsOneOfItsOwn(t *testing.T) {
	seen := map[budget.Epoch]bool{}
	for range 100 {
		k := New(Config{Store: newFakeStore(), Instance: "same {host}", Logger: slog.New(slog.DiscardHandler)})
		for range 3 {
			if seen[k.Epoch()] {
				t.Fatalf("got %s twice", k.Epoch())
			}
			seen[k.Epoch()] = true
			if strings.ContainsAny(string(k.Epoch()), "{} ") {
				t.Fatalf("got %q, want nothing that a key of a cluster cannot bear", k.Epoch())
			}
			k.Renew(k.Epoch())
		}
	}
}

func TestManyRecordsAreReclaimedInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		a, _ := start(t, f, "a", nil)
		for i := range 1001 {
			f.open(a.Epoch(), fmt.Sprint(i))
		}
		kill(a)
		b, seen := start(t, f, "b", nil)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if seen.ended() != 1001 {
			t.Errorf("got %d reclaimed, want 1001", seen.ended())
		}
		if got := slices.Max(f.sizes); got != 200 {
			t.Errorf("got a batch of %d, want at most 200", got)
		}
		retire(t, b)
	})
}

func TestGatewaysStartedTogetherDoNotReclaimTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		var all []*Keeper
		for i := range 20 {
			k, _ := start(t, f, fmt.Sprint(i), nil)
			all = append(all, k)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		at := map[time.Time]int{}
		for _, when := range f.reclaims {
			at[when]++
		}
		for when, n := range at {
			if n > 2 {
				t.Errorf("got %d at %v, want them spread", n, when)
			}
		}
		if n := len(f.reclaims); n < 20*8 || n > 20*25 {
			t.Errorf("got %d calls of 20 gateways in 30 s, want about 240", n)
		}
		retire(t, all...)
	})
}

func TestStrangersAreEndedOnceTheyAreOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		k, seen := start(t, f, "a", known{"open": true})
		f.open(k.Epoch(), "open", "stranger")
		f.open("other", "theirs")
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if got := fmt.Sprint(f.ids()); got != "[open theirs]" {
			t.Errorf("got %v, want the stranger alone ended", got)
		}
		if len(f.settled) != 1 || f.settled[0].Lines != nil || f.settled[0].Used != nil || f.settled[0].Epoch != k.Epoch() {
			t.Errorf("got %+v, want it ended as a reclaim would", f.settled)
		}
		if seen.ended() != 1 {
			t.Errorf("got %d reported, want 1", seen.ended())
		}
		retire(t, k)
	})
}

func TestAYoungStrangerIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		k, _ := start(t, f, "a", nil)
		for range 200 {
			f.open(k.Epoch(), "young") // its reservation's answer is still on the way
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if len(f.settled) != 0 {
			t.Errorf("got %+v ended, want none younger than the grace", f.settled)
		}
		retire(t, k)
	})
}

func TestRetiringEndsTheEpochAndItsLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		k, _ := start(t, f, "a", known{"r1": true})
		f.open(k.Epoch(), "r1")
		retire(t, k)
		if got := f.ids(); len(got) != 0 {
			t.Errorf("got %v open, want none", got)
		}
		if _, ok := f.beat(k.Epoch()); ok {
			t.Error("the epoch still counts as live")
		}
		retire(t, k) // again, without effect
	})
}

func TestRetiringWaitsForACallUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		f.delay = 10 * time.Second
		k, _ := start(t, f, "a", nil)
		retire(t, k)
		f.set(func() {
			if f.beating {
				t.Error("a beat is still under way after retiring: it would bring the epoch back")
			}
		})
	})
}

func TestRetiringFromAStoreThatIsAwayIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		k, _ := start(t, f, "a", nil)
		away := errors.New("connection refused")
		f.set(func() { f.down = away })
		if err := k.Retire(context.Background()); !errors.Is(err, away) || !strings.Contains(err.Error(), string(k.Epoch())) {
			t.Errorf("got %v, want an error that names the epoch and wraps the store's", err)
		}
	})
}

func TestTheStoresTimeIsKnownWithoutAskingForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		f.skew = -3 * time.Hour
		k := New(Config{Store: f, Instance: "a"})
		if got := k.Now(); !got.IsZero() {
			t.Errorf("got %v before any answer, want zero", got)
		}
		k.Start(known{})
		synctest.Wait()
		f.set(func() { f.down = errors.New("away") })
		time.Sleep(time.Hour)
		if got, want := k.Now(), time.Now().Add(-3*time.Hour); got.Sub(want).Abs() > time.Millisecond {
			t.Errorf("got %v, want %v", got, want)
		}
		f.set(func() { f.down = nil })
		retire(t, k)
	})
}

// S21.
func TestS21_AStepOfTheStoresClockIsTold(t *testing.T) {
	for _, s := range []struct {
		what  string
		step  time.Duration
		alarm bool
	}{
		{"a tenth of a second is drift", 100 * time.Millisecond, false},
		{"a second forward is a step", time.Second, true},
		{"a second back is a step", -time.Second, true},
	} {
		t.Run(s.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				f, w := newFakeStore(), new(watcher)
				k := New(Config{Store: f, Observer: w, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				k.Start(known{})
				time.Sleep(5 * time.Second)
				f.set(func() { f.skew = s.step })
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if got := len(w.steps) == 1 && strings.Count(log.String(), "clock stepped") == 1; got != s.alarm {
					t.Errorf("got steps %v and log %q, want an alarm: %v", w.steps, &log, s.alarm)
				}
				if got, want := k.Now(), time.Now().Add(s.step); got.Sub(want).Abs() > 2*time.Millisecond {
					t.Errorf("got %v, want to follow it to %v", got, want)
				}
				retire(t, k)
			})
		})
	}
}

func TestSlowAnswersDoNotMoveTheClock(t *testing.T) {
	c := clock{base: time.Now()}
	at := func(ms int) time.Time { return c.base.Add(time.Duration(ms) * time.Millisecond) }
	store := func(ms int) time.Time { return at(ms).Add(time.Hour) }
	for _, s := range []struct {
		what           string
		told           time.Time
		sent, received int
		moved          bool
	}{
		{"the first answer is believed", store(1), 0, 2, false},
		{"the store was read at once, the answer took a second", store(10), 10, 1010, false},
		{"the call took a second, the answer came at once", store(3000), 2000, 3000, false},
		{"a quick answer that disagrees is believed", store(4100), 4000, 4001, true},
	} {
		if got := c.observe(s.told, at(s.sent), at(s.received)); (got != 0) != s.moved {
			t.Errorf("%s: got a move of %v, want one: %v", s.what, got, s.moved)
		}
	}
}

func TestAStoreThatIsAwayDoesNotStopAKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		f.down = errors.New("connection refused")
		k, _ := start(t, f, "a", nil)
		time.Sleep(time.Hour)
		f.set(func() { f.down = nil })
		time.Sleep(time.Second)
		synctest.Wait()
		if _, ok := f.beat(k.Epoch()); !ok {
			t.Error("got no beat after the store came back")
		}
		retire(t, k)
	})
}
