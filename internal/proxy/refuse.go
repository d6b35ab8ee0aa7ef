package proxy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/fault"
)

// longestHint is the longest wait that clients are told to sleep through:
// official clients sleep for whatever Retry-After says.
const longestHint = fault.LongestHint

// refusal turns a verdict that is not Granted into what the client is told.
func (g *Gateway) refusal(p *plan, v budget.Verdict) *fault.Error {
	g.spent.note(p.Lines, v)
	line, state := p.Lines[v.Binding], v.Lines[v.Binding]
	l := line.Limit.InForce(state)
	e := &fault.Error{
		Code: codeOf(v.Outcome),
		Limit: &fault.Limit{
			Scope: string(l.Scope), Owner: l.Owner, Name: l.Name, Unit: string(l.Unit), Amount: l.Amount, Per: string(l.Period),
			Remaining: max(state.Remaining, 0), Unknown: v.Outcome == budget.Unavailable, Requested: line.Amount, By: p.LimitedBy(line),
		},
	}
	switch v.Outcome {
	case budget.NeverFits:
		e.Limit.Amount = l.Capacity()
		e.NoRetry = true
	case budget.NoSlot, budget.HeldBack, budget.Unavailable:
		e.Wait = jitter(250*time.Millisecond, 750*time.Millisecond)
	default:
		e.Wait = max(v.Wait, time.Millisecond)
		if e.Wait <= longestHint {
			e.Wait = g.herd.spread(turnOf(p, v, e.Wait))
		}
		e.NoRetry = e.Wait > longestHint
		if v.Outcome == budget.Spent && !e.NoRetry {
			e.Code = fault.RateLimitExceeded
		}
	}
	e.Message = explain(l, e, v)
	if share := state.Capacity; v.Degraded && share < l.Capacity() && v.Outcome != budget.Unavailable {
		e.Message += fmt.Sprintf(" (The store of limits is away: until it is back this instance keeps to its share, %s.)", quantity(l.Unit, share))
	}
	return e
}

// turnOf is the turn to give a request that v refuses, and would fit after wait if
// nobody else waited. Without the store this instance's share gains its part.
func turnOf(p *plan, v budget.Verdict, wait time.Duration) turn {
	line, state := p.Lines[v.Binding], v.Lines[v.Binding]
	limit := line.Limit.InForce(state)
	t := turn{queue: queueOf(line.Limit, line), caller: p.Caller.Name(), client: p.Caller.Conn, wait: wait, gain: limit.Gain(line.Amount)}
	if share := state.Capacity; v.Degraded && share > 0 && share < limit.Capacity() {
		t.gain = time.Duration(min(float64(t.gain)*float64(limit.Capacity())/float64(share), float64(2*longestHint)))
	}
	return t
}

func codeOf(o budget.Outcome) fault.Code {
	switch o {
	case budget.NeverFits:
		return fault.ExceedsLimit
	case budget.NoSlot:
		return fault.ConcurrencyExceeded
	case budget.HeldBack:
		return fault.Held
	case budget.Spent:
		return fault.InsufficientQuota
	case budget.Unavailable:
		return fault.LimiterUnavailable
	default:
		return fault.RateLimitExceeded
	}
}

// explain says in one or two sentences which limit refused, what it had, and
// when to come back.
func explain(l *budget.Limit, e *fault.Error, v budget.Verdict) string {
	o, left := v.Outcome, v.Lines[v.Binding].Remaining
	who := subject(l)
	limit := quantity(l.Unit, l.Amount) + per(l.Period)
	switch o {
	case budget.NeverFits:
		return fmt.Sprintf("This request needs %s, more than %s can ever have: %s. Make it smaller (a shorter prompt, or a lower maximum of output).",
			quantity(l.Unit, e.Limit.Requested), who, quantity(l.Unit, l.Capacity()))
	case budget.NoSlot:
		if l.Amount == 1 {
			return fmt.Sprintf("%s has its one concurrent request in flight. Try again when it has ended.", capital(who))
		}
		return fmt.Sprintf("%s has all of its %s in flight. Try again when one has ended.", capital(who), quantity(l.Unit, l.Amount))
	case budget.HeldBack:
		return fmt.Sprintf("%s has %s, and open requests hold too much of it: this request needs %s. Try again when some have ended.",
			capital(who), limit, l.Unit.Text(e.Limit.Requested))
	case budget.Unavailable:
		return fmt.Sprintf("The limit of %s cannot be checked at the moment. Try again shortly.", who)
	case budget.Exceeded:
		if e.Limit.Remaining >= e.Limit.Requested { // a claim is in the way (S33)
			return fmt.Sprintf("%s is at its limit of %s, and half of what comes back is kept for a larger request that waits: this one needs %s. Try again in %s.",
				capital(who), limit, l.Unit.Text(e.Limit.Requested), readable(e.Wait))
		}
		fallthrough
	default:
		return fmt.Sprintf("%s is at its limit of %s: this request needs %s, %s. Try again %s.",
			capital(who), limit, l.Unit.Text(e.Limit.Requested), balance(l.Unit, left), again(l, e.Wait, v.At))
	}
}

// balance says what a limit has left, or how much it owes.
func balance(u budget.Unit, left int64) string {
	switch {
	case left < 0:
		return "and " + u.Text(-left) + " used beyond the limit must be regained first"
	case left == 1 && u != budget.USD:
		return "1 is left"
	default:
		return u.Text(left) + " are left"
	}
}

// again says when to come back: in how long, or for a period that ends later than
// a client should sleep, on which day. at is the store's time.
func again(l *budget.Limit, wait time.Duration, at time.Time) string {
	if wait <= longestHint || !l.Period.Calendar() || at.IsZero() {
		return "in " + readable(wait)
	}
	zone := l.Location
	if zone == nil {
		zone = time.UTC
	}
	return fmt.Sprintf("from %s (%s)", roundMinute(at.Add(wait)).In(zone).Format("2 January 2006, 15:04"), zone)
}

// roundMinute is the whole minute nearest to t: periods begin on one.
func roundMinute(t time.Time) time.Time { return t.Round(time.Minute) }

func subject(l *budget.Limit) string {
	switch l.Scope {
	case budget.Gateway:
		return "the gateway"
	case budget.User:
		return "this user"
	case budget.IP:
		return "this address"
	case budget.Model:
		if !l.Single() {
			return fmt.Sprintf("this model within %s", strings.Replace(l.Place, "/", " ", 1))
		}
		return fmt.Sprintf("model %q", l.Owner)
	default:
		return fmt.Sprintf("%s %q", l.Scope, l.Owner)
	}
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func per(p budget.Period) string {
	if p == "" {
		return ""
	}
	return " per " + string(p)
}

// quantity is an amount with its unit: "100,000 tokens", "1 request", "$500.00".
func quantity(u budget.Unit, n int64) string {
	if u == budget.USD {
		return u.Text(n)
	}
	name := strings.ReplaceAll(string(u), "_", " ")
	if u == budget.Concurrency {
		name = "concurrent requests"
	}
	if n == 1 {
		name = strings.TrimSuffix(name, "s")
	}
	return u.Text(n) + " " + name
}

// readable rounds a wait up to a tenth of a second, or to seconds when it is long.
func readable(d time.Duration) string {
	if d > longestHint {
		return (d + time.Second - 1).Truncate(time.Second).String()
	}
	tenths := (d + 100*time.Millisecond - 1) / (100 * time.Millisecond)
	return fmt.Sprintf("%d.%d s", tenths/10, tenths%10)
}

// jitter is a random duration from low to high.
func jitter(low, high time.Duration) time.Duration { return low + rand.N(high-low) }
