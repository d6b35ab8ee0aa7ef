package failover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"llmgw/internal/budget"
)

// ledger is a Store that refills nothing, so that sums can be compared: what a
// counter has left is its capacity less what was charged.
type ledger struct {
	mu      sync.Mutex
	left    map[string]int64
	paused  map[string]bool
	newer   map[string]*budget.Limit // of another gateway's newer file
	records map[string]*entry
	ended   map[string]bool
	fenced  map[budget.Epoch]bool
	retired []budget.Epoch
	reports []budget.Progress
	settles int // calls
	skew    time.Duration
}

type entry struct {
	epoch budget.Epoch
	lines []budget.Line
	took  []bool
	crash budget.CrashCharge
	used  []int64
}

func newLedger() *ledger {
	return &ledger{
		left: map[string]int64{}, paused: map[string]bool{}, records: map[string]*entry{},
		ended: map[string]bool{}, fenced: map[budget.Epoch]bool{},
	}
}

func (s *ledger) now() time.Time { return time.Now().Add(s.skew).Truncate(time.Millisecond) }

func counterName(l budget.Line) string { return l.Limit.Place + "/" + l.Limit.Name + "/" + l.Value }

func (s *ledger) level(l budget.Line) int64 {
	if n, ok := s.left[counterName(l)]; ok {
		return n
	}
	return s.limit(l).Capacity()
}

// limit is the one in force.
func (s *ledger) limit(l budget.Line) *budget.Limit {
	if newer := s.newer[counterName(l)]; newer != nil {
		return newer
	}
	return l.Limit
}

func (s *ledger) state(l budget.Line) budget.LineState {
	level, in := s.level(l), s.limit(l)
	st := budget.LineState{Remaining: level, Capacity: in.Capacity(), Reset: time.Hour, Amount: in.Amount, Burst: in.Capacity()}
	switch {
	case l.Limit.Unit == budget.Concurrency && level < 1:
		st.Outcome = budget.NoSlot
	case l.Limit.Unit == budget.Concurrency:
	case l.Amount > st.Capacity:
		st.Outcome = budget.NeverFits
	case level < l.Amount || s.paused[counterName(l)]:
		st.Outcome, st.Wait = budget.Exceeded, time.Minute
	}
	return st
}

func (s *ledger) Reserve(_ context.Context, r budget.Request) (budget.Verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch have := s.records[r.ID]; {
	case s.fenced[r.Epoch]:
		return budget.Verdict{}, budget.ErrFenced
	case !r.NotAfter.IsZero() && s.now().After(r.NotAfter), s.ended[r.ID]:
		return budget.Verdict{}, budget.ErrTooLate
	case have != nil && !slices.Equal(have.lines, r.Lines):
		return budget.Verdict{}, budget.ErrConflict
	case have != nil:
		return budget.Verdict{Binding: -1, At: s.now(), Repeated: true, Lines: make([]budget.LineState, len(r.Lines))}, nil
	}
	v := budget.Verdict{Binding: -1, At: s.now()}
	for i, l := range r.Lines {
		st := s.state(l)
		if st.Outcome != budget.Granted && v.Binding < 0 && !r.Force && !r.Shadow && l.Limit.Mode != budget.Shadow {
			v.Outcome, v.Binding, v.Wait = st.Outcome, i, st.Wait
		}
		v.Lines = append(v.Lines, st)
	}
	if v.Outcome != budget.Granted {
		return v, nil
	}
	e := &entry{epoch: r.Epoch, lines: r.Lines, crash: r.CrashCharge, took: make([]bool, len(r.Lines))}
	for i, l := range r.Lines {
		if r.Force {
			v.Lines[i].Outcome = budget.Granted
		}
		if e.took[i] = v.Lines[i].Outcome == budget.Granted; e.took[i] {
			s.left[counterName(l)] = s.level(l) - l.Amount
			v.Lines[i].Remaining -= l.Amount
		}
	}
	s.records[r.ID] = e
	return v, nil
}

func (s *ledger) Settle(_ context.Context, list []budget.Settlement) ([]budget.Settled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settles++
	var out []budget.Settled
	for _, b := range list {
		e := s.records[b.ID]
		out = append(out, budget.Settled{Known: e != nil})
		if e == nil {
			continue
		}
		used := b.Used
		if b.Lines == nil {
			used = e.used
		}
		for i, l := range e.lines {
			if !e.took[i] {
				continue
			}
			n := l.Amount
			if l.Limit.Unit != budget.Concurrency && i < len(used) {
				n -= used[i]
			}
			s.left[counterName(l)] += n
		}
		delete(s.records, b.ID)
		s.ended[b.ID] = true
	}
	return out, nil
}

func (s *ledger) Enqueue(b budget.Settlement, done func(budget.Settled, error)) {
	settleSoon(s, b, done)
}

// settleSoon is how a fake enqueues a settlement: in the background, and bounded.
func settleSoon(s budget.Store, b budget.Settlement, done func(budget.Settled, error)) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		out, err := s.Settle(ctx, []budget.Settlement{b})
		if err != nil {
			done(budget.Settled{}, err)
			return
		}
		done(out[0], nil)
	}()
}

func (s *ledger) Report(_ context.Context, p []budget.Progress) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range p {
		s.reports = append(s.reports, r)
		if e := s.records[r.ID]; e != nil {
			e.used = r.Used
		}
	}
	return nil
}

func (s *ledger) Read(_ context.Context, lines []budget.Line) ([]budget.LineState, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []budget.LineState
	for _, l := range lines {
		out = append(out, s.state(l))
	}
	return out, s.now(), nil
}

func (s *ledger) Correct(_ context.Context, list []budget.Correction) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range list {
		if c.AtMost >= 0 {
			s.left[counterName(c.Line)] = min(s.level(c.Line), c.AtMost)
		}
		s.paused[counterName(c.Line)] = c.Pause > 0
	}
	return nil
}

func (s *ledger) Heartbeat(_ context.Context, e budget.Epoch) (budget.Beat, error) {
	return budget.Beat{Fenced: s.fenced[e], Live: 1, At: s.now()}, nil
}

func (s *ledger) Reclaim(context.Context, time.Duration, int) (budget.Reclaimed, error) {
	return budget.Reclaimed{}, nil
}

func (s *ledger) Retire(_ context.Context, e budget.Epoch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = append(s.retired, e)
	return nil
}

func (s *ledger) OpenIDs(_ context.Context, e budget.Epoch) (map[string]time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := map[string]time.Duration{}
	for id, r := range s.records {
		if r.epoch == e {
			ids[id] = time.Hour
		}
	}
	return ids, nil
}

func (s *ledger) Close() error { return nil }

// forget drops the tombstones, as a store does after a minute.
func (s *ledger) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.ended)
}

// fence makes e an epoch that may reserve no more.
func (s *ledger) fence(e budget.Epoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fenced[e] = true
}

// charged is what the counter of l has lost.
func (s *ledger) charged(l budget.Line) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.Limit.Capacity() - s.level(l)
}

// open lists the records.
func (s *ledger) open() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.records))
}

// fault is what happens to one call between the Limiter and its store.
type fault int

const (
	none       fault = iota
	lost             // the call never arrives, no answer comes
	replyLost        // it is applied, no answer comes
	barelyLate       // it is applied 100 ms after the caller has given up
	late             // … half a second after
	veryLate         // … ten seconds after
	repeated         // it is applied, answered, and applied again a second later
	slow             // it is applied and answered after 5 ms
	refused          // the connection is refused
	readonly         // the store answers that it may not write
	loading          // … that it is still loading its data
	oom              // … that its memory is full
	busy             // … that a script runs
	moved            // … that another node has the slot
	overload         // this process has no time for the call
)

// errs are what go-redis returns, and the store's own of an overload.
var errs = map[fault]error{
	refused:  errors.New("dial tcp 127.0.0.1:6379: connect: connection refused"),
	readonly: errors.New("READONLY You can't write against a read only replica."),
	loading:  errors.New("LOADING Redis is loading the dataset in memory"),
	oom:      errors.New("OOM command not allowed when used memory > 'maxmemory'."),
	busy:     errors.New("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."),
	moved:    errors.New("MOVED 3999 127.0.0.1:6381"),
	overload: fmt.Errorf("reserve: %w", budget.ErrOverloaded),
}

// faulty puts faults between a Limiter and a store.
type faulty struct {
	budget.Store
	mu    sync.Mutex
	next  func(op string) fault // nil: none
	calls map[string]int
	late  sync.WaitGroup

	ended    []budget.Settlement // enqueued
	dones    []func(budget.Settled, error)
	settling bool
}

func (f *faulty) set(next func(op string) fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = next
}

// all makes every call meet one fault.
func (f *faulty) all(one fault) { f.set(func(string) fault { return one }) }

func (f *faulty) count(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

func (f *faulty) do(ctx context.Context, op string, apply func(context.Context) error) error {
	f.mu.Lock()
	what := none
	if f.next != nil {
		what = f.next(op)
	}
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[op]++
	f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	switch what {
	case lost:
		<-ctx.Done()
		return fmt.Errorf("%s: %w", op, ctx.Err())
	case replyLost:
		_ = apply(ctx)
		<-ctx.Done()
		return fmt.Errorf("%s: %w", op, ctx.Err())
	case barelyLate, late, veryLate:
		f.after(map[fault]time.Duration{barelyLate: 100 * time.Millisecond, late: 500 * time.Millisecond, veryLate: 10 * time.Second}[what], apply)
		<-ctx.Done()
		return fmt.Errorf("%s: %w", op, ctx.Err())
	case repeated:
		f.after(time.Second, apply)
	case slow:
		wait := time.NewTimer(5 * time.Millisecond)
		<-wait.C
	}
	if err := errs[what]; err != nil {
		return err
	}
	return apply(ctx)
}

// after applies a call again, or for the first time, in the background.
func (f *faulty) after(d time.Duration, apply func(context.Context) error) {
	f.late.Go(func() {
		timer := time.NewTimer(d)
		<-timer.C
		_ = apply(context.Background())
	})
}

func (f *faulty) Reserve(ctx context.Context, r budget.Request) (v budget.Verdict, err error) {
	answers := make(chan budget.Verdict, 2)
	err = f.do(ctx, "reserve", func(ctx context.Context) error {
		v, err := f.Store.Reserve(ctx, r)
		answers <- v
		return err
	})
	if err != nil {
		return budget.Verdict{}, err
	}
	return <-answers, nil
}

func (f *faulty) Settle(ctx context.Context, s []budget.Settlement) ([]budget.Settled, error) {
	answers := make(chan []budget.Settled, 2)
	if err := f.do(ctx, "settle", func(ctx context.Context) error {
		out, err := f.Store.Settle(ctx, s)
		answers <- out
		return err
	}); err != nil {
		return nil, err
	}
	return <-answers, nil
}

// Enqueue lets settlements that wait for the call before them travel together.
func (f *faulty) Enqueue(s budget.Settlement, done func(budget.Settled, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended, f.dones = append(f.ended, s), append(f.dones, done)
	if len(f.ended) == 1 && !f.settling {
		f.settling = true
		go f.settleEnded()
	}
}

func (f *faulty) settleEnded() {
	for {
		f.mu.Lock()
		list, dones := f.ended, f.dones
		f.ended, f.dones = nil, nil
		f.settling = len(list) > 0
		f.mu.Unlock()
		if len(list) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		out, err := f.Settle(ctx, list)
		cancel()
		for i, done := range dones {
			if err != nil {
				done(budget.Settled{}, err)
				continue
			}
			done(out[i], nil)
		}
	}
}

func (f *faulty) Report(ctx context.Context, p []budget.Progress) error {
	return f.do(ctx, "report", func(ctx context.Context) error { return f.Store.Report(ctx, p) })
}

func (f *faulty) Correct(ctx context.Context, c []budget.Correction) error {
	return f.do(ctx, "correct", func(ctx context.Context) error { return f.Store.Correct(ctx, c) })
}

// fixedKeeper is a keeper of a fleet of live gateways.
type fixedKeeper struct {
	mu    sync.Mutex
	n     int
	live  int
	store *ledger
	beats int
}

func (k *fixedKeeper) Epoch() budget.Epoch {
	k.mu.Lock()
	defer k.mu.Unlock()
	return budget.Epoch(fmt.Sprintf("gw.%d", k.n))
}

func (k *fixedKeeper) Renew(fenced budget.Epoch) budget.Epoch {
	if k.Epoch() == fenced {
		k.mu.Lock()
		k.n++
		k.mu.Unlock()
	}
	return k.Epoch()
}

func (k *fixedKeeper) Live() int { return max(1, k.live) }

func (k *fixedKeeper) Now() time.Time { return k.store.now() }

func (k *fixedKeeper) Observe(time.Time, time.Time, time.Time) {}

func (k *fixedKeeper) Beat() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.beats++
}

func (k *fixedKeeper) Retire(ctx context.Context) error { return k.store.Retire(ctx, k.Epoch()) }
