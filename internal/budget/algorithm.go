package budget

import "fmt"

// algorithm is how the counters of one kind count. An algorithm has one file,
// with all of these verbs, and a .lua file of the same name in redisstore. What
// all kinds have in common is in counter.go, spend.go and state.go.
//
// Every verb but compile, bound, validate, fresh and advance wants a counter
// that was advanced to now.
type algorithm interface {
	// compile writes what only this algorithm has of l into r, whose capacity and
	// debt are set.
	compile(l *Limit, r *Rules)
	// bound is the most that r's capacity and debt may come to together, so that
	// all of the algorithm's arithmetic stays exact.
	bound(r *Rules) int64
	// validate returns why this algorithm cannot count l, or nil.
	validate(l *Limit) error

	// fresh makes c, which has its rules alone, a full counter.
	fresh(c *Counter, b Bounds, now int64)
	// advance brings c to now. b are the bounds of the sender's period, or zero if
	// its rules are not those of c.
	advance(c *Counter, b Bounds, now int64)
	// adopt converts c to newer rules of the same algorithm: what was used stays
	// used (S22).
	adopt(c *Counter, r Rules)

	// judge returns whether cost would be granted now, and if not, in how many
	// milliseconds it would be if nobody else came.
	judge(c *Counter, cost, now int64) (Outcome, int64)
	// room is how much can still be charged before the debt is at its bound.
	room(c *Counter) int64
	// use takes n, whatever is left. It returns the period or moment that n was
	// taken from.
	use(c *Counter, n, now int64) (mark int64)
	// refund gives back n that was taken from mark.
	refund(c *Counter, mark, n int64)
	// held is what h has of c.Open.
	held(c *Counter, h Hold) int64

	// remaining is what is left in whole units, negative in debt.
	remaining(c *Counter, now int64) int64
	// reset is the time until c is full or its period ends, in milliseconds.
	reset(c *Counter, now int64) int64
}

// kind is an algorithm as the stores write it down.
type kind byte

const (
	kindBucket kind = iota + 1
	kindPacing
	kindCalendar
	kindWindow
	kindLog
	kindSlots
)

// algorithms are those that there are, by kind.
var algorithms = [...]algorithm{
	kindBucket:   bucket{},
	kindPacing:   pacing{},
	kindCalendar: calendar{},
	kindWindow:   slidingWindow{},
	kindLog:      slidingLog{},
	kindSlots:    slots{},
}

func (k kind) algorithm() algorithm { return algorithms[k] }

// kindOf returns the kind of a limit's algorithm, or an error if there is none
// of that name.
func kindOf(a Algorithm) (kind, error) {
	switch a {
	case TokenBucket:
		return kindBucket, nil
	case Pacing:
		return kindPacing, nil
	case CalendarUsage:
		return kindCalendar, nil
	case SlidingWindow:
		return kindWindow, nil
	case SlidingLog:
		return kindLog, nil
	case Slots:
		return kindSlots, nil
	default:
		return 0, fmt.Errorf("there is no algorithm %q", a)
	}
}

// counted is what algorithms share whose counters count Used up to Capacity.
type counted struct{}

func (counted) compile(*Limit, *Rules)              {}
func (counted) bound(*Rules) int64                  { return MaxExact }
func (counted) validate(*Limit) error               { return nil }
func (counted) adopt(*Counter, Rules)               {}
func (counted) room(c *Counter) int64               { return max(0, c.Capacity+c.Debt-c.Used) }
func (counted) held(_ *Counter, h Hold) int64       { return h.Taken - min(h.Reported, h.Taken) }
func (counted) remaining(c *Counter, _ int64) int64 { return c.Capacity - c.Used }
