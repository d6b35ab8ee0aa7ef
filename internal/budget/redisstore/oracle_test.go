package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"llmgw/internal/budget"
)

// The oracle drives three counters of each limit through one random past: the
// scripts in a real Redis, the Go arithmetic, and a model in exact fractions.
// Every reply and every stored counter is compared. The past aims at edges.
//
// ORACLE_STEPS and ORACLE_SEED lengthen and repeat a run.

func TestScriptsGoAndModelAgree(t *testing.T) {
	steps, seed := envInt("ORACLE_STEPS", oracleSteps), envInt("ORACLE_SEED", time.Now().UnixNano())
	t.Logf("seed %d", seed)
	if err := runOracle(t, newScripts(), steps, seed); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}

// FuzzScriptsGoAndModelAgree plays pasts for as long as it is let.
func FuzzScriptsGoAndModelAgree(f *testing.F) {
	f.Add(int64(1))
	f.Fuzz(func(t *testing.T, seed int64) {
		if err := runOracle(t, newScripts(), 250, seed); err != nil {
			t.Fatal(err)
		}
	})
}

func envInt(name string, otherwise int64) int64 {
	n, err := strconv.ParseInt(os.Getenv(name), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// runOracle plays pasts of some hundred steps until it has made so many.
func runOracle(t testing.TB, p scripts, steps, seed int64) error {
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	s := open(t)
	s.scripts = p
	for _, script := range []script{p.reserve, p.settle, p.report, p.correct} {
		if err := s.client.ScriptLoad(context.Background(), script.text).Err(); err != nil {
			return err
		}
	}
	for done, past := int64(0), 0; done < steps; past++ {
		o := newOracle(s, random, past)
		for range 250 {
			o.step()
		}
		if err := o.compare(); err != nil {
			return fmt.Errorf("past %d: %w", past, err)
		}
		done += 250
	}
	return nil
}

// oracle is one past.
type oracle struct {
	s      *Store
	random *rand.Rand
	past   int
	now    int64
	limits []*budget.Limit
	goes   []budget.Counter
	models []*modelled
	stored []bool  // whether the scripts have written it; else it is new at every look
	known  []int64 // to where the period bounds that were stored last reach
	open   []*taken
	ended  []*taken
	lastMS int64 // the wait that was told last
	ids    int

	pipe   redis.Pipeliner
	checks []func() error // of the answers, in their order
	err    error
}

// taken is a reservation.
type taken struct {
	id     string
	lines  []budget.Line
	crash  budget.CrashCharge
	which  []int
	hold   []budget.Hold
	models []modelHold
}

func newOracle(s *Store, random *rand.Rand, past int) *oracle {
	o := &oracle{s: s, random: random, past: past, now: 1_800_000_000_000 + random.Int64N(1e9), pipe: s.client.Pipeline()}
	for i := range 6 {
		l := o.limit(i)
		o.limits = append(o.limits, l)
		o.goes = append(o.goes, budget.New(budget.RulesOf(l), budget.BoundsOf(l, o.now), o.now))
		o.models = append(o.models, newModel(l, o.now))
		o.stored, o.known = append(o.stored, l.StartEmpty), append(o.known, 0)
	}
	o.s.clock.Store(o.now)
	for i := range o.limits { // a counter that starts empty begins now
		o.sendCorrection(i, -1, 0)
	}
	return o
}

// limit is a random limit, often with the largest amounts that are valid.
func (o *oracle) limit(i int) *budget.Limit {
	for {
		l := &budget.Limit{
			Place: "team/o", Scope: budget.Team, Name: fmt.Sprint(o.past, "-", i), Unit: budget.Tokens, Tag: "o", Version: 1,
			Period: pick(o.random, budget.Second, budget.Minute, budget.Hour), Mode: budget.Enforce,
			Amount: pick[int64](o.random, 1, 2, 3, 7, 59, 60, 61, 1000, 59_999, 60_000, 60_001, 1_000_003, 1<<31, 1<<40),
			Bank:   pick[int64](o.random, 0, 1, 2, 4), StartEmpty: o.random.IntN(8) == 0,
			Algorithm: pick(o.random, budget.TokenBucket, budget.TokenBucket, budget.Pacing, budget.CalendarUsage,
				budget.SlidingWindow, budget.SlidingLog, budget.Slots),
		}
		l.Burst = pick(o.random, l.Amount, l.Amount, 1, l.Amount/2+1)
		l.MaxDebt = pick[int64](o.random, 10*l.Burst, l.Burst, 0, 1)
		switch l.Algorithm {
		case budget.TokenBucket:
			if o.random.IntN(4) == 0 { // the bound itself
				r := budget.RulesOf(l)
				l.MaxDebt = (budget.MaxExact-r.Num-r.Den)/r.Den - l.Burst
			}
		case budget.CalendarUsage:
			l.Period, l.Location, l.ResetDay, l.MaxDebt = budget.Month, time.UTC, 1, budget.MaxExact-l.Amount
		case budget.SlidingLog:
			l.Amount = 1 + l.Amount%20
			l.MaxDebt = 30
		case budget.Slots:
			l.Unit, l.Period, l.Amount, l.StartEmpty, l.MaxDebt = budget.Concurrency, "", 1+l.Amount%5, false, 0
		}
		if l.Algorithm != budget.TokenBucket {
			l.Bank = 0
		}
		if l.Algorithm == budget.Slots || l.Algorithm == budget.SlidingLog || l.Algorithm == budget.CalendarUsage || l.Algorithm == budget.SlidingWindow {
			l.StartEmpty = false // the model has it for buckets
		}
		if budget.Validate(l) == nil {
			return l
		}
	}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// step moves the clock and does one thing.
func (o *oracle) step() {
	if o.err != nil {
		return
	}
	o.move()
	switch n := o.random.IntN(20); {
	case n < 10:
		o.reserve()
	case n < 15:
		o.settle()
	case n < 17:
		o.report()
	case n < 18:
		o.correct()
	case n < 19:
		o.reload()
	default:
		o.settleAgain()
	}
	o.look()
}

// move advances the clock, mostly to where something changes.
func (o *oracle) move() {
	d := pick[int64](o.random, 0, 0, 0, 1, 1, o.lastMS, o.lastMS-1, o.lastMS+1, o.lastMS+4999, o.lastMS+5000, 17, 999, 1000, 60_000, 3_600_000, o.random.Int64N(100_000))
	switch o.random.IntN(60) {
	case 0:
		d = pick[int64](o.random, -1, -4999, -5000)
	case 1:
		d = pick[int64](o.random, -5001, -60_000, -86_400_000)
	case 2:
		d = 35 * 86_400_000
	}
	if d < 0 || d > 40*86_400_000 {
		d = max(d, -86_400_000)
		d = min(d, 40*86_400_000)
	}
	// A reservation that outlives two calendar periods meets bounds that only a
	// caller can tell; until one comes the stores guess.
	for i := range o.limits {
		if o.goes[i].Holds > 0 && o.limits[i].Algorithm == budget.CalendarUsage {
			d = min(d, max(0, o.known[i]-1-o.now))
		}
	}
	o.now += d
	o.s.clock.Store(o.now)
}

// advanced are the Go counter and its model, brought to now; neither is kept.
func (o *oracle) advanced(i int) budget.Counter {
	c := o.goes[i]
	c.Log = slices.Clone(c.Log)
	l := o.limits[i]
	c.Advance(budget.RulesOf(l), budget.BoundsOf(l, o.now), o.now)
	return c
}

func (o *oracle) advance(i int) {
	if !o.stored[i] {
		l := o.limits[i]
		o.goes[i] = budget.New(budget.RulesOf(l), budget.BoundsOf(l, o.now), o.now)
		o.models[i] = newModel(l, o.now)
		return
	}
	o.goes[i] = o.advanced(i)
	m := o.models[i]
	m.advance(o.now)
	if m.limit != o.limits[i] {
		m.adopt(o.limits[i], o.now)
		m.limit = o.limits[i]
	}
}

// cost aims at the edges of counter i.
func (o *oracle) cost(i int) int64 {
	left, full := o.goes[i].Remaining(o.now), o.limits[i].Capacity()
	n := pick[int64](o.random, 0, 1, left, left, left+1, left-1, left-o.goes[i].Claimed, full-1, full, full+1, 1+o.random.Int64N(full), 1+o.random.Int64N(full)/8)
	if o.limits[i].Algorithm == budget.SlidingLog || o.limits[i].Algorithm == budget.Slots {
		n = pick[int64](o.random, 1, 1, n)
	}
	return min(max(n, 0), budget.MaxExact)
}

// reserve makes a request of up to four lines and checks all three answers.
func (o *oracle) reserve() {
	o.ids++
	r := budget.Request{ID: fmt.Sprint("o", o.past, "-", o.ids), Epoch: "oracle", Lifetime: time.Duration(1+o.random.IntN(90)) * 24 * time.Hour,
		Force: o.random.IntN(40) == 0, Shadow: o.random.IntN(40) == 0,
		CrashCharge: pick(o.random, budget.ChargeProgress, budget.ChargeFull, budget.ChargeNone)}
	q := &taken{id: r.ID, crash: r.CrashCharge}
	var undo []func(changed bool)
	for _, i := range o.random.Perm(len(o.limits))[:1+o.random.IntN(4)] {
		undo = append(undo, o.attempt(i))
		o.advance(i)
		q.which = append(q.which, i)
		q.lines = append(q.lines, budget.Line{Limit: o.limits[i], Amount: o.cost(i)})
	}
	r.Lines = q.lines
	refused := false
	want, waits := make([]budget.LineState, len(q.which)), make([]int64, len(q.which))
	for j, i := range q.which {
		cost := q.lines[j].Amount
		out, wait := o.goes[i].Judge(cost, o.now)
		mOut, mWait := o.models[i].ask(cost, o.now)
		if out != mOut || wait != mWait {
			o.fail("%s: Go judges %d as %v in %d ms, the model as %v in %d ms", o.name(i), cost, out, wait, mOut, mWait)
		}
		want[j].Outcome, waits[j] = out, wait
		if out != budget.Granted && q.lines[j].Enforced(&r) {
			refused, o.lastMS = true, wait
		}
	}
	for j, i := range q.which {
		if refused {
			break
		}
		if want[j].Outcome != budget.Granted && !r.Force {
			q.hold = append(q.hold, budget.Hold{Taken: -1})
			q.models = append(q.models, modelHold{taken: -1})
			continue
		}
		h := o.goes[i].Take(q.lines[j].Amount, o.now+r.Lifetime.Milliseconds(), o.now)
		m := o.models[i].hold(q.lines[j].Amount, o.now)
		if h.Taken != m.taken {
			o.fail("%s: Go takes %d, the model %d", o.name(i), h.Taken, m.taken)
		}
		q.hold, q.models = append(q.hold, h), append(q.models, m)
	}
	claims := make([]bool, len(q.which))
	for j, i := range q.which {
		if !refused || want[j].Outcome != budget.Exceeded || !q.lines[j].Enforced(&r) {
			continue
		}
		claims[j] = o.goes[i].Claim(q.lines[j].Amount, waits[j], o.now)
		if m := o.models[i].claimed(q.lines[j].Amount, waits[j], o.now); m != claims[j] {
			o.fail("%s: Go claims %d: %v, the model: %v", o.name(i), q.lines[j].Amount, claims[j], m)
		}
	}
	for j, i := range q.which {
		want[j] = o.goes[i].State(o.limits[i].Period, want[j].Outcome, waits[j], o.now)
	}
	if !refused {
		o.open = append(o.open, q)
	}
	for j := range undo {
		undo[j](claims[j] || !refused && q.hold[j].Taken >= 0)
	}
	o.send(&r, want)
}

// send puts the request into the pipeline.
func (o *oracle) send(r *budget.Request, want []budget.LineState) {
	l := o.s.batcher(o.s.prefix)
	g := o.s.split(r)[0]
	w := &reserving{id: r.ID, epoch: r.Epoch, parts: g.parts, lines: len(g.lines), done: make(chan struct{}),
		head: append(requestHead(r), byte(len(g.lines)), byte(len(g.parts)))}
	keys, args := l.reserveCall([]*reserving{w})
	o.call(&o.s.scripts.reserve, keys, args, func(answer *reader) error {
		w.read(answer, 0)
		if w.status != decided || answer.bad {
			return fmt.Errorf("reserve %s: status %d", w.id, w.status)
		}
		for j := range want {
			if w.states[j] != want[j] {
				return fmt.Errorf("reserve %d of %s (%s): the script says %+v, Go %+v", r.Lines[j].Amount, r.Lines[j].Limit.Name,
					r.Lines[j].Limit.Algorithm, w.states[j], want[j])
			}
		}
		return nil
	})
}

// call puts a script's call into the pipeline, and the check of its answer.
func (o *oracle) call(p *script, keys, args []any, check func(*reader) error) {
	cmd := p.command(context.Background(), keys, args)
	step, now := len(o.checks), o.now
	_ = o.pipe.Process(context.Background(), cmd) // only queues
	o.checks = append(o.checks, func() error {
		answer, err := text(cmd)
		if err == nil {
			if at := answer.int(); at != now {
				err = fmt.Errorf("the script's time is %d, want %d", at, now)
			}
		}
		if err == nil {
			err = check(answer)
		}
		if err != nil {
			return fmt.Errorf("check %d: %w", step, err)
		}
		return nil
	})
}

func (o *oracle) fail(format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf(format, args...)
	}
}

func (o *oracle) name(i int) string {
	l := o.limits[i]
	return fmt.Sprintf("%s of %d per %s, burst %d, bank %d, debt %d, at %d", l.Algorithm, l.Amount, l.Period, l.Burst, l.Bank, l.MaxDebt, o.now)
}

// end takes a reservation off the open ones.
func (o *oracle) end(q *taken) {
	o.open = slices.DeleteFunc(o.open, func(other *taken) bool { return other == q })
	o.ended = append(o.ended, q)
}

// crash ends an open reservation by its crash charge.
func (o *oracle) crash(q *taken) {
	o.end(q)
	unbooked := int64(0)
	for j, i := range q.which {
		if q.hold[j].Taken < 0 {
			continue
		}
		o.advanceAlone(i)
		n := q.crash.Of(q.hold[j])
		if m := q.models[j].lost(q.crash); m != n {
			o.fail("%s: a crash costs %d in Go, %d in the model", o.name(i), n, m)
		}
		unbooked += o.goes[i].Settle(q.hold[j], n, o.now)
		o.models[i].settle(q.models[j], n, o.now)
	}
	o.sendSettle(q.id, crashBody(), budget.Settled{Known: true, Unbooked: unbooked})
}

// settle ends a random open reservation.
func (o *oracle) settle() {
	if len(o.open) == 0 {
		return
	}
	q := pick(o.random, o.open...)
	o.end(q)
	var used []int64
	unbooked := int64(0)
	for j, i := range q.which {
		asked := q.lines[j].Amount
		u := pick[int64](o.random, 0, asked, asked, asked-1, asked+1, asked/2, o.limits[i].Capacity(), o.random.Int64N(2*asked+1), budget.MaxExact)
		u = min(max(u, 0), budget.MaxExact)
		used = append(used, u)
		if q.hold[j].Taken < 0 {
			continue
		}
		o.advanceAlone(i)
		over := o.goes[i].Settle(q.hold[j], u, o.now)
		if m := o.models[i].settle(q.models[j], u, o.now); m != over {
			o.fail("%s: settling %d of %d leaves %d in Go, %d in the model", o.name(i), u, q.hold[j].Taken, over, m)
		}
		unbooked += over
	}
	o.sendSettle(q.id, usedBody(used), budget.Settled{Known: true, Unbooked: unbooked})
}

// advanceAlone brings a counter to now as a settlement does, which has no rules.
func (o *oracle) advanceAlone(i int) {
	o.goes[i].Advance(budget.Rules{}, budget.Bounds{}, o.now)
	if c, ok := o.models[i].model.(*calendarModel); ok && o.now < c.start {
		return // only a caller knows the periods before
	}
	o.models[i].advance(o.now)
}

func (o *oracle) sendSettle(id string, body []byte, want budget.Settled) {
	l := o.s.batcher(o.s.prefix)
	one := []*settling{{id: id, body: body}}
	o.call(&o.s.scripts.settle, l.settleKeys(one), l.settleArgs(one), func(answer *reader) error {
		got := budget.Settled{Known: answer.byte() == 1, Unbooked: answer.int()}
		if got.Known != want.Known || math.Abs(float64(got.Unbooked-want.Unbooked)) > float64(want.Unbooked)*1e-15 {
			return fmt.Errorf("settle %s: the script says %+v, Go %+v", id, got, want)
		}
		return answer.err()
	})
}

func (o *oracle) settleAgain() {
	if len(o.ended) > 0 {
		o.sendSettle(pick(o.random, o.ended...).id, usedBody([]int64{1, 2, 3, 4}), budget.Settled{})
	}
}

// report tells the progress of a random open reservation, and of some what a
// crash should be charged, and gives back a part of others. Some crash then.
func (o *oracle) report() {
	if len(o.open) == 0 {
		return
	}
	q := pick(o.random, o.open...)
	var used, keep, crash []int64
	gives, warns := o.random.IntN(2) == 0, o.random.IntN(2) == 0
	for j, i := range q.which {
		u := o.random.Int64N(q.lines[j].Amount*pick[int64](o.random, 1, 2) + 1)
		used = append(used, u)
		if gives {
			keep = append(keep, pick(o.random, 0, u, q.lines[j].Amount-1, o.random.Int64N(q.lines[j].Amount*2+1)))
		}
		if warns {
			crash = append(crash, pick(o.random, 0, u-1, u, u+1, q.lines[j].Amount, q.lines[j].Amount+1, o.random.Int64N(q.lines[j].Amount*2+1)))
			q.hold[j].Crash, q.models[j].crash = max(crash[j], 0), max(crash[j], 0)
		}
		if q.hold[j].Taken < 0 {
			continue
		}
		undo, known := o.attempt(i), o.known[i]
		o.advanceAlone(i)
		was := q.hold[j]
		q.hold[j] = o.goes[i].Note(q.hold[j], u)
		o.models[i].note(&q.models[j], u)
		if gives {
			q.hold[j] = o.goes[i].Shrink(q.hold[j], max(keep[j], 0))
			o.models[i].shrink(&q.models[j], max(keep[j], 0), o.now)
		}
		if q.hold[j].Taken != q.models[j].taken {
			o.fail("%s: Go keeps %d, the model %d", o.name(i), q.hold[j].Taken, q.models[j].taken)
		}
		undo(q.hold[j].Taken != was.Taken || q.hold[j].Reported != was.Reported)
		o.known[i] = known
	}
	o.call(&o.s.scripts.report, []any{o.s.prefix, recordKey(o.s.prefix, q.id)}, []any{o.s.given(), appendInt(appendInts(appendInts(appendInts(nil, used), keep), crash), 0)},
		func(*reader) error { return nil })
	if o.random.IntN(2) == 0 {
		o.crash(q)
	}
}

// correct lowers or pauses a random counter.
func (o *oracle) correct() {
	i := o.random.IntN(len(o.limits))
	undo := o.attempt(i)
	o.advance(i)
	left := o.goes[i].Remaining(o.now)
	atMost := pick[int64](o.random, -1, 0, 1, o.limits[i].Capacity()/2, o.goes[i].Remaining(o.now))
	pause := pick[int64](o.random, 0, 0, 1, 1000, 70_000)
	if atMost < 0 {
		atMost = -1
	}
	o.goes[i].Correct(atMost, pause, o.now)
	o.models[i].correct(atMost, pause, o.now)
	undo(pause > 0 || atMost >= 0 && atMost < left)
	o.sendCorrection(i, atMost, pause)
}

// attempt returns what undoes a step on counter i that changed nothing, as the
// scripts write only what changed, followed a clock far back, or came under newer
// rules.
func (o *oracle) attempt(i int) func(changed bool) {
	before, model := o.goes[i], o.models[i]
	before.Log = slices.Clone(before.Log)
	o.models[i] = model.clone()
	return func(changed bool) {
		back := o.goes[i].At < before.At || o.goes[i].Start < before.Start
		if !changed && (!o.stored[i] || !back && o.goes[i].Version == before.Version) {
			o.goes[i], o.models[i] = before, model
			return
		}
		o.stored[i] = true
		o.known[i] = budget.BoundsOf(o.limits[i], o.now).Next
	}
}

func (o *oracle) sendCorrection(i int, atMost, pause int64) {
	r := o.s.rulesOf(o.limits[i])
	o.call(&o.s.scripts.correct, []any{o.s.prefix, r.key("")}, []any{o.s.given(), r.bytes(o.now), appendInt(appendInt(nil, atMost), pause)},
		func(*reader) error { return nil })
}

// reload puts a limit under newer rules of the same algorithm.
func (o *oracle) reload() {
	i := o.random.IntN(len(o.limits))
	l := *o.limits[i]
	l.Version++
	l.Amount = pick[int64](o.random, l.Amount, l.Amount+1, l.Amount*2, l.Amount/2+1, 7)
	if l.Algorithm == budget.SlidingLog {
		l.Amount = 1 + l.Amount%20
	}
	l.Burst = pick(o.random, l.Burst, l.Burst+1, l.Amount)
	if budget.Validate(&l) != nil {
		return
	}
	o.limits[i] = &l
}

// look compares every counter as the store has it, and the model's with Go's.
func (o *oracle) look() {
	keys := []string{}
	want := make([]budget.Counter, len(o.limits))
	for i := range o.limits {
		keys = append(keys, o.s.rulesOf(o.limits[i]).key(""))
		want[i] = o.goes[i]
		want[i].Log = slices.Clone(want[i].Log)
		m := o.models[i]
		if open := o.goes[i].Open; open != m.open {
			o.fail("%s: Go has %d open, the model %d", o.name(i), open, m.open)
		}
	}
	if o.err != nil {
		err := o.err
		o.checks = append(o.checks, func() error { return err })
		return
	}
	cmd := o.pipe.MGet(context.Background(), keys...)
	limits, kept, now := slices.Clone(o.limits), slices.Clone(o.stored), o.now
	o.checks = append(o.checks, func() error {
		for i, v := range cmd.Val() {
			stored, ok := v.(string)
			if !ok {
				if kept[i] {
					return fmt.Errorf("%s is not stored, Go has %+v", keys[i], want[i])
				}
				continue
			}
			got := decodeCounter(stored)
			// What a refusal moved is not written: bring both to now.
			rules, bounds := budget.RulesOf(limits[i]), budget.BoundsOf(limits[i], now)
			got.advance(rules, bounds, now)
			want[i].Advance(rules, bounds, now)
			if diff := got.differs(&want[i], now); diff != "" {
				return fmt.Errorf("%s (%s): %s: stored\n%+v, Go\n%+v", keys[i], limits[i].Algorithm, diff, got.Counter, want[i])
			}
		}
		return cmd.Err()
	})
}

// compare makes the calls and checks the answers in their order.
func (o *oracle) compare() error {
	_, _ = o.pipe.Exec(context.Background()) // each command has its error
	for _, check := range o.checks {
		if err := check(); err != nil {
			return err
		}
	}
	return o.err
}

// storedCounter is a counter as a script stored it.
type storedCounter struct {
	budget.Counter
	kind byte
}

func decodeCounter(s string) storedCounter {
	f := make([]int64, 12)
	for i := range f {
		f[i] = number(s, 2+8*i)
	}
	c := storedCounter{kind: s[0]}
	c.Empty = s[1] == 1
	c.Version, c.Capacity, c.Debt, c.Holds, c.Open, c.Until, c.Paused = f[0], f[1], f[2], f[3], f[4], f[5], f[6]
	v, w, x, y, z := f[7], f[8], f[9], f[10], f[11]
	switch c.kind {
	case 1, 2:
		c.Num, c.Den, c.Bank, c.Level, c.At = v, w, x, y, z
		if len(s) > 98 {
			c.Claimed, c.ClaimedAt, c.ClaimEnds = number(s, 98), number(s, 106), number(s, 114)
		}
	case 3:
		c.Mark, c.Start, c.End, c.Next, c.Used = v, w, x, y, z
		if len(s) > 98 {
			c.PrevMark, c.Prev = number(s, 98), number(s, 106)
		}
	case 4:
		c.Window, c.Start, c.Used, c.Prev = v, w, x, y
	case 5:
		c.Window, c.Used, c.At = v, w, x
		for pos := 98; pos < len(s); pos += 16 {
			c.Log = append(c.Log, budget.Entry{At: number(s, pos), Amount: number(s, pos+8)})
		}
	}
	return c
}

func number(s string, at int) int64 {
	return int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(s[at : at+8]))))
}

// advance brings the stored counter to now by the Go arithmetic.
func (c *storedCounter) advance(r budget.Rules, b budget.Bounds, now int64) {
	c.Rules = c.Rules.WithKind(c.kind)
	c.Advance(r, b, now)
}

// differs names what differs between two counters, "" if nothing does.
func (c *storedCounter) differs(want *budget.Counter, now int64) string {
	for _, f := range []struct {
		name      string
		got, want int64
	}{
		{"version", c.Version, want.Version}, {"capacity", c.Capacity, want.Capacity}, {"debt", c.Debt, want.Debt},
		{"num", c.Num, want.Num}, {"den", c.Den, want.Den}, {"bank", c.Bank, want.Bank}, {"window", c.Window, want.Window},
		{"holds", c.Holds, want.Holds}, {"open", c.Open, want.Open}, {"until", c.Until, want.Until}, {"paused", c.Paused, want.Paused},
		{"level", c.Level, want.Level}, {"used", c.Used, want.Used}, {"prev", c.Prev, want.Prev}, {"prev mark", c.PrevMark, want.PrevMark},
		{"mark", c.Mark, want.Mark}, {"start", c.Start, want.Start}, {"end", c.End, want.End}, {"next", c.Next, want.Next},
		{"claimed", c.Claimed, want.Claimed}, {"claimed at", c.ClaimedAt, want.ClaimedAt}, {"claim's end", c.ClaimEnds, want.ClaimEnds},
		{"life", c.Life(now), want.Life(now)},
	} {
		if f.got != f.want {
			return f.name
		}
	}
	if !slices.Equal(c.Log, want.Log) {
		return "log"
	}
	return ""
}
