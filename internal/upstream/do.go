package upstream

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"llmgw/internal/fault"
)

// Do makes the call: it waits for a turn, sends, and tries again as the
// configuration of the first target allows, until there is an answer to pass
// on. ctx bounds the whole call, the reading of the answer included; ending it
// closes the provider's connection.
//
// The error is ctx's, what ended the job's wait (Job.Check, the room's end), or a
// *fault.Error, within a *TargetError if a try was
// sent: UpstreamCapacity (no turn in time;
// Wait says when there is one), UpstreamTimeout or UpstreamError, or what the
// dialect has against the call. A provider's answer is no error, whatever its
// status.
func (c *Client) Do(ctx context.Context, j Job) (*Response, error) {
	r := c.begin(ctx, j)
	for {
		i, how := c.choose(r.job, r.standing)
		if i < 0 {
			return r.end()
		}
		if err := r.await(i); err != nil {
			r.drop(r.best)
			return nil, err
		}
		o := r.try(i, how)
		if ctx.Err() != nil && !o.looked() {
			if o.response != nil && o.response.Status >= 400 {
				r.failed(o)
			}
			r.drop(o)
			return r.end()
		}
		if o.final() {
			r.drop(r.best)
			return o.result()
		}
		if !r.note(i, o) {
			return r.end()
		}
	}
}

// begin begins the tries of a job.
func (c *Client) begin(ctx context.Context, j Job) *run {
	r := &run{client: c, ctx: ctx, own: j}
	r.job = &r.own
	if n := len(j.Targets); n <= len(r.few) {
		r.standing = r.few[:n]
	} else {
		r.standing = make([]standing, n)
	}
	return r
}

// looked reports whether o is a document whose start was being read: its reader
// decides what it is worth to a caller that left meanwhile.
func (o outcome) looked() bool { return o.response != nil && o.response.look.from != nil }

// run is the tries of one job.
type run struct {
	client *Client
	ctx    context.Context
	job    *Job // own

	own       Job
	few       [1]standing    // for most jobs
	standing  []standing     // of each target
	allowed   int            // tries, by the first target's provider
	attempts  int            // tries sent
	asks      int            // names reservations
	plain     *state         // of the provider that rejected stream_options; nil: none has
	rejection usageRejection // how it said so
	passed    string         // the provider that was passed over first since it would take too long
	waited    time.Duration
	best      outcome // the most telling failure so far
}

// try makes one try with the i-th target: its turn, then the exchange.
func (r *run) try(i int, how choice) outcome {
	t := r.job.Targets[i]
	s, conns := r.client.at(t)
	a := attempt{ctx: r.ctx, target: t, model: t.part(r.job), state: s, connections: conns}
	var look outlook
	a.key, look = r.client.key(s, a.model, r.job.tokens(t.Provider), r.standing[i].skip)
	if a.key == nil { // a reload took the others away
		return outcome{again: elsewhere, unsent: true, err: ofCredential(t.Provider, refused, nil)}
	}
	if look.rest.cause.bars() {
		return r.resting(t, look.rest)
	}
	var o outcome
	if a.turn, o = r.take(t, a.key, how.waits); o.err != nil {
		if !how.waits && o.again == elsewhere && o.err.Code == fault.UpstreamCapacity {
			r.passOver(i)
			o.again = anywhere // it may yet serve soonest
		}
		return o
	}
	r.spills(t)
	if rest := r.client.admit(&a, how.last); rest.cause != "" { // it began to rest meanwhile
		a.turn.settle(0, 0)
		return outcome{again: anywhere, unsent: true, err: unserved(t.Provider, rest)}
	}
	if r.attempts == 0 {
		r.allowed = 1 + max(0, t.Provider.Retries)
	}
	r.attempts++
	began := time.Now()
	o = r.client.exchange(r.ctx, r, a)
	if r.job.Watcher != nil {
		status := 0
		if o.response != nil {
			status = o.response.Status
		}
		r.job.Watcher.Tried(t, status, o.err, time.Since(began))
	}
	return o
}

// resting waits for what rests, if that is what its provider asked for and there
// is time for it. It is no try.
func (r *run) resting(t Target, d rest) outcome {
	o := outcome{again: elsewhere, unsent: true, err: unserved(t.Provider, d)}
	if left := r.left(t); d.cause == limited && d.wait <= left {
		o.again = anywhere
		if err := r.sleep(min(left, d.wait+rand.N(min(afterJitter, d.wait/10)+1))); err != nil {
			o.again, o.err = never, fault.From(err)
		}
	}
	return o
}

// take waits for a turn with t.
func (r *run) take(t Target, k *key, waits bool) (*turn, outcome) {
	start := time.Now()
	maxWait := r.left(t)
	if !waits {
		maxWait = min(maxWait, r.job.spillAfter())
	}
	r.asks++
	turn, err := k.pacer.take(r.ctx, request{
		id: r.job.RequestID, nth: r.asks,
		team: r.job.Team, weight: r.job.Weight, model: t.part(r.job),
		tokens:  r.job.tokens(t.Provider),
		maxWait: maxWait,
		check:   r.job.Check,
	})
	if err == nil && turn == nil {
		return nil, outcome{}
	}
	d := time.Since(start)
	r.waited += d
	r.client.observer.QueueWait(t.Provider.Name, d)
	if err != nil {
		o := outcome{err: fault.From(err), again: elsewhere, unsent: true}
		if c := o.err.Code; c != fault.UpstreamCapacity && c != fault.LimiterUnavailable {
			o.again = never // the job itself is refused
		}
		return nil, o
	}
	return turn, outcome{}
}

// left is how long the job may still wait for t.
func (r *run) left(t Target) time.Duration {
	most := t.Provider.MaxWait
	if r.job.MaxWait >= 0 {
		most = min(most, r.job.MaxWait)
	}
	return max(0, most-r.waited)
}

// passOver notes that the turn with the i-th target would not come within
// SpillAfter.
func (r *run) passOver(i int) {
	r.standing[i].spilled = true
	if r.passed == "" {
		r.passed = r.job.Targets[i].Provider.Name
	}
}

// spills tells that the job goes to a later order than the first, since the first
// would take too long.
func (r *run) spills(to Target) {
	from := r.passed
	for i, t := range r.job.Targets {
		if from == "" && t.rank() < to.rank() && !r.standing[i].out && r.standing[i].ready.IsZero() {
			from = t.Provider.Name
		}
	}
	if from != "" && from != to.Provider.Name {
		r.client.observer.Spilled(r.job.Model, from, to.Provider.Name)
	}
}

// standing is what a job knows of one of its targets.
type standing struct {
	// out says that it must not be asked again.
	out bool
	// spilled says that its turn would not come within Job.SpillAfter.
	spilled bool
	// ready is when it may be asked again; zero: it did not fail yet.
	ready time.Time
	// skip are the keys that it refused.
	skip []*key
}

// note keeps what a failure tells, and reports whether to try again.
func (r *run) note(i int, o outcome) bool {
	r.keep(o)
	if !o.unsent {
		r.failed(o)
	}
	st := &r.standing[i]
	switch {
	case o.again == elsewhere:
		st.out = true
	case o.again == otherKey && o.key != nil:
		st.skip = append(st.skip, o.key)
		st.out = len(st.skip) >= r.client.keys(r.job.Targets[i])
	}
	switch {
	case o.unsent: // that was no try
		return true
	case o.again == otherKey: // the same call, as the provider should have taken it
		r.allowed++
		return true
	case o.plain != nil && r.plain == nil: // the same call, as the provider takes it
		r.plain, r.rejection = o.plain, o.rejection
		r.allowed++
		return true
	}
	st.ready = time.Now().Add(o.delay(r.attempts))
	return r.attempts < r.allowed
}

// failed tells that a try that was sent has failed.
func (r *run) failed(o outcome) {
	if r.job.Watcher != nil {
		r.job.Watcher.Failed(o.target, o.err)
	}
}

// keep makes o the failure to report in the end, unless the one that is there
// tells more: a provider's answer tells more than a turn that did not come.
func (r *run) keep(o outcome) {
	if o.unsent && (r.best.response != nil || r.best.err != nil && !r.best.unsent) {
		return
	}
	if o.unsent && r.best.err != nil && r.best.err.Wait > 0 && r.best.err.Wait <= o.err.Wait {
		return
	}
	r.drop(r.best)
	r.best = o
}

// drop gives up an outcome's answer.
func (r *run) drop(o outcome) {
	if o.response != nil {
		o.response.Meter.End()
		_ = o.response.Close() // nobody wants it
	}
}

// end is the result when nothing is left to try.
func (r *run) end() (*Response, error) {
	if err := r.ctx.Err(); err != nil {
		r.drop(r.best)
		return nil, err
	}
	if r.best.response == nil && r.best.err == nil {
		return nil, fault.New(fault.Internal, "There is no target for this request.")
	}
	return r.best.result()
}

// final tells whether o is the client's at once.
func (o outcome) final() bool { return o.again == never }

// result is what Do returns of o.
func (o outcome) result() (*Response, error) {
	switch {
	case o.err == nil:
		return o.response, nil
	case o.target.Provider == nil:
		return nil, o.err
	default:
		return nil, &TargetError{Target: o.target, Err: o.err}
	}
}

// LogValue shows an outcome in a log, without any of its content.
func (o outcome) LogValue() slog.Value {
	status := 0
	if o.response != nil {
		status = o.response.Status
	}
	attrs := []slog.Attr{slog.Int("status", status), slog.Duration("retry_after", o.after)}
	if o.err != nil {
		attrs = append(attrs, slog.String("error", o.err.Error()))
	}
	return slog.GroupValue(attrs...)
}
