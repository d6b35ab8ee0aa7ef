package proxy

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/ledger"
	"llmgw/internal/telemetry"
	"llmgw/internal/tokens"
)

// outsideEnd is how a reservation ended. The first that is written counts: who
// repeats it gets its answer, and its charge is made once.
type outsideEnd struct {
	How    string          `json:"how"`
	Nonce  string          `json:"nonce"` // of the request that ended it
	Used   []int64         `json:"used"`
	Answer json.RawMessage `json:"answer,omitempty"`
}

// The ways to end.
const (
	endSettled = "settled"
	endDeleted = "deleted"
	endExpired = "expired"
)

// settledOutcomes are those that a client may give its call.
var settledOutcomes = []charge.Outcome{charge.Completed, charge.ClientGone, charge.UpstreamError, charge.UpstreamTruncated, charge.TimedOut}

// settle answers POST reservations/{id}/settle.
func (c *outsideCall) settle() error {
	o, err := c.find()
	if err != nil {
		return err
	}
	var ask struct {
		Usage   json.RawMessage `json:"usage"`
		Amounts amounts         `json:"amounts"`
		Outcome charge.Outcome  `json:"outcome"`
	}
	if err := c.decode(&ask); err != nil {
		return err
	}
	if ask.Outcome == "" {
		ask.Outcome = charge.Completed
	}
	if !slices.Contains(settledOutcomes, ask.Outcome) {
		return fault.Invalid("outcome", fmt.Sprintf("outcome: %q is not one of %v.", ask.Outcome, settledOutcomes))
	}
	p := o.plan(c)
	use, err := c.useOf(p, ask.Usage, ask.Amounts)
	if err != nil {
		return err
	}
	use.outcome = ask.Outcome
	answer, err := json.Marshal(p.settled(o, use))
	if err != nil {
		return err
	}
	end, mine, err := c.finish(o, p, &outsideEnd{How: endSettled, Used: use.used, Answer: answer})
	if err != nil {
		return err
	}
	if mine {
		c.bookOutside(o, p, use)
	}
	return c.send(http.StatusOK, end.Answer)
}

// remove answers DELETE reservations/{id}.
func (c *outsideCall) remove() error {
	o, err := c.find()
	if err != nil {
		return err
	}
	p := o.plan(c)
	use := used{outcome: charge.ClientGone, used: make([]int64, len(p.Lines))}
	_, mine, err := c.finish(o, p, &outsideEnd{How: endDeleted, Used: use.used})
	if err != nil {
		return err
	}
	if mine {
		c.bookOutside(o, p, use)
	}
	c.w.WriteHeader(http.StatusNoContent)
	c.rec.status = http.StatusNoContent
	return nil
}

// finish ends o once, however often and wherever it is asked to. It returns how o
// ended, and whether this call was the first; AlreadyEnded if it ended otherwise.
func (c *outsideCall) finish(o *outside, p *plan, end *outsideEnd) (*outsideEnd, bool, error) {
	var first *outsideEnd
	if o.end != nil {
		first = o.end
	} else {
		if !time.Now().Before(o.until) {
			return nil, false, o.ended(endExpired)
		}
		end.Nonce = rand.Text()
		data, err := json.Marshal(end)
		if err != nil {
			return nil, false, err
		}
		won, err := o.at.SetOnce(c.r.Context(), outsideName(o.ID), "end", string(data))
		if err != nil {
			return nil, false, storeAway(err)
		}
		first = new(outsideEnd)
		if err := json.Unmarshal([]byte(won), first); err != nil {
			return nil, false, fmt.Errorf("end %s: %w", o.ID, err)
		}
	}
	if first.How != end.How {
		return nil, false, o.ended(first.How)
	}
	// A gateway may have died after the line above: settling again does no harm.
	c.charge(o, p.Lines, first.Used)
	return first, first.Nonce == end.Nonce && end.Nonce != "", nil
}

// ended is the refusal of what comes after the end.
func (o *outside) ended(how string) error {
	what := map[string]string{
		endSettled: "was settled", endDeleted: "was deleted", endExpired: "had reached the end of its ttl, and was ended by the crash charge",
	}[how]
	return &fault.Error{Code: fault.AlreadyEnded, NoRetry: true, Message: "This reservation " + what + " already."}
}

// charge ends o in the store.
func (g *Gateway) charge(o *outside, lines []budget.Line, used []int64) {
	if !o.Held || len(used) != len(lines) {
		return
	}
	if o.local != nil {
		o.local.timer.Reset(keptAfter)
		o.local.held.Settle(used)
	} else {
		all := o.requests(lines)
		g.Limiter.Adopt(all[0], all[1:]...).Settle(used)
	}
	g.freed(lines, used)
}

// expire ends a reservation that only this gateway knows, as a crash would.
func (g *Gateway) expire(id string) {
	local := g.locals.get(id)
	g.locals.delete(id)
	if local == nil || local.held == nil {
		return
	}
	lines := local.held.Request.Lines
	used := make([]int64, len(lines))
	for i, l := range lines {
		if local.held.Request.CrashCharge == budget.ChargeFull {
			used[i] = l.Amount
		}
	}
	local.held.Settle(used)
}

// settlement is the answer to a settle.
type outsideSettlement struct {
	ID      string         `json:"id"`
	Outcome charge.Outcome `json:"outcome"`
	Input   tokens.Count   `json:"input_tokens"`
	Cached  tokens.Count   `json:"cached_input_tokens"`
	Output  tokens.Count   `json:"output_tokens"`
	CostUSD float64        `json:"cost_usd"`
	Limits  []ledger.Drawn `json:"limits"`
}

// settled is what a reservation has come to.
func (p *plan) settled(o *outside, u used) outsideSettlement {
	return outsideSettlement{
		ID: o.ID, Outcome: u.outcome, Input: u.usage.Input, Cached: u.usage.CachedInput, Output: u.usage.Output,
		CostUSD: budget.USD.Number(u.microUSD), Limits: p.drawnBy(u.used),
	}
}

// bookOutside records what a reservation has come to, as a call's end is recorded.
func (c *outsideCall) bookOutside(o *outside, p *plan, u used) {
	now := time.Now()
	label := p.Label()
	if p.Model == anyModel {
		label = "other"
	}
	reserved, total := p.Reserved().Total(), u.usage.Total()
	c.Metrics.Reserved(o.Team, label, reserved)
	c.Metrics.Refunded(o.Team, label, max(0, reserved-total))
	c.Metrics.Overrun(o.Team, label, max(0, total-reserved))
	c.Metrics.Tokens(o.Team, label, u.usage)
	c.Metrics.RequestDone(telemetry.RequestLabels{
		Team: o.Team, Model: label, Endpoint: outsideEndpoint, Status: http.StatusOK, Outcome: string(u.outcome),
	}, telemetry.Timing{Total: now.Sub(o.Created)})
	c.Ledger.Record(ledger.Entry{
		Time: now, RequestID: o.ID, Team: o.Team, KeyID: o.Key, Model: o.Model, User: o.User, Session: o.Session, Endpoint: outsideEndpoint,
		Status: http.StatusOK, Outcome: string(u.outcome), Reserved: reserved, Usage: u.usage, MicroUSD: u.microUSD,
		EstimatedInput: p.Estimate.Input, ReservedOutput: p.Estimate.Output,
		Weighted: p.Model.Amount(budget.Tokens, p.Reserved(), 0), Charged: p.Model.Amount(budget.Tokens, u.usage, 0),
		Drawn: p.drawnBy(u.used), Total: now.Sub(o.Created),
	})
}

// patch answers PATCH reservations/{id}: progress, more, longer.
func (c *outsideCall) patch() error {
	o, err := c.find()
	if err != nil {
		return err
	}
	var ask struct {
		Used   json.RawMessage `json:"used"`
		Extend amounts         `json:"extend"`
		TTL    *span           `json:"ttl"`
	}
	if err := c.decode(&ask); err != nil {
		return err
	}
	if o.end != nil {
		return o.ended(o.end.How)
	}
	if !time.Now().Before(o.until) {
		return o.ended(endExpired)
	}
	ttl, err := ask.TTL.ttl(0)
	if err != nil {
		return err
	}
	p := o.plan(c)
	var so []int64
	if len(ask.Used) > 0 {
		use, err := c.useOf(p, ask.Used, nil)
		if err != nil {
			return err
		}
		so = use.used
	}
	if err := ask.Extend.check("extend"); err != nil {
		return err
	}
	if len(ask.Extend) > 0 {
		if err := c.extend(o, p, ask.Extend, max(ttl, time.Until(o.until))); err != nil {
			return err
		}
	}
	if err := c.progress(o, p, so, ttl); err != nil {
		return err
	}
	return c.answer(http.StatusOK, struct {
		ID      string    `json:"id"`
		Expires time.Time `json:"expires_at"`
	}{o.ID, o.until.UTC().Truncate(time.Millisecond)})
}

// progress tells the store what was used so far, and until when o lives.
func (c *outsideCall) progress(o *outside, p *plan, so []int64, ttl time.Duration) error {
	if o.Held && o.local == nil && (so != nil || ttl > 0) {
		var all []budget.Progress
		rest := slices.Clone(so)
		for _, r := range o.requests(p.Lines) {
			step := budget.Progress{ID: r.ID, Lines: r.Lines, Lifetime: ttl}
			for i := range rest {
				n := min(rest[i], r.Lines[i].Amount)
				step.Used = append(step.Used, n)
				rest[i] -= n
			}
			step.Crash = step.Used
			all = append(all, step)
		}
		if err := c.Limiter.Progress(c.r.Context(), all); err != nil {
			return storeAway(err)
		}
	}
	if ttl <= 0 {
		return nil
	}
	o.until = time.Now().Add(ttl)
	if o.local != nil {
		o.local.timer.Reset(ttl)
	}
	if err := o.set(c.r.Context(), map[string]string{}); err != nil {
		return storeAway(err)
	}
	return nil
}

// extend takes more of o's limits, all of it or nothing.
func (c *outsideCall) extend(o *outside, p *plan, more amounts, life time.Duration) error {
	if !o.Held {
		return nil
	}
	if o.local != nil {
		return storeAway(nil)
	}
	suffix, ns := "+"+rand.Text()[:8], make([]int64, len(p.Lines))
	for i, l := range p.Lines {
		ns[i] = more[l.Limit.Unit]
	}
	r := o.part(p.Lines, suffix, ns)
	r.Lifetime = life
	held, v := c.Limiter.Reserve(c.r.Context(), r)
	asked := *p
	asked.Lines = r.Lines
	c.rec.plan = p
	c.rec.route.dialect = p.dialect
	c.rec.reserved(c.w, &asked, reservation{verdict: v, mode: c.Enforcement()})
	if held == nil {
		return c.refusal(&asked, v)
	}
	data, err := json.Marshal(ns)
	if err == nil {
		err = o.set(c.r.Context(), map[string]string{"part" + suffix: string(data)})
	}
	now, loadErr := c.load(c.r.Context(), o.ID)
	switch {
	case err != nil || loadErr != nil || now == nil:
		held.Settle(make([]int64, len(ns)))
		return storeAway(err)
	case now.end != nil: // meanwhile: whoever ended it may not have seen the part
		held.Settle(make([]int64, len(ns)))
		return o.ended(now.end.How)
	}
	o.parts[suffix] = ns
	return nil
}

// callOf is a call as far as its end needs it.
func callOf(o *outside) *dialect.Call {
	return &dialect.Call{Dialect: o.Dialect, Model: o.Model, Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: dialect.Chat}}}
}
