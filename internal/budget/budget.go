// Package budget decides whether a request may spend, and keeps account of
// what it spent. One request makes one Reservation: an amount from every limit
// that concerns it, and its slots, all or nothing. Settling replaces what was
// reserved by what was used, once.
//
// limit.go says what a limit is, this file what a store of counters does;
// rules.go proves a limit countable and newlimit.go fills in its defaults; key.go
// names its counters. counter.go, spend.go and state.go are what counters of
// every kind have in common, free of any store and clock. algorithm.go says what
// an algorithm must do; bucket.go (with claim.go), pacing.go, calendar.go,
// window.go, log.go and slots.go are one algorithm each. decide.go puts the
// lines of a request together. memstore and redisstore are the two stores, held
// equal by budgettest; lease saves calls of a store, failover decides when it
// cannot answer.
//
// The package does not know HTTP, models or prices: its callers turn those
// into amounts.
package budget

import (
	"context"
	"errors"
	"strings"
	"time"
)

// Line is what a request asks of one limit.
type Line struct {
	Limit *Limit
	// Value picks the counter of a limit that has one for each user, ip or
	// model; empty otherwise. It may be any string: stores hash long ones.
	Value string
	// Amount is asked for, in the limit's unit, 0 to 2^53-1. 1 for a slot.
	Amount int64
}

// Request asks for a reservation.
type Request struct {
	// ID names the attempt. Reserving an ID again is granted and charged once
	// if the amounts are the same, and ErrConflict if not. It may carry a tag: see
	// Tagged.
	ID    string
	Epoch Epoch // of the gateway that asks
	Lines []Line
	// Shadow makes every line behave as Mode Shadow.
	Shadow bool
	// Force grants whatever the levels: to post what was spent without the store.
	Force bool
	// NotAfter is the store's time after which the request must not be applied
	// (a delayed or repeated message). Zero: no such time.
	NotAfter time.Time
	// Lifetime bounds the record's life in the store, a backstop behind
	// heartbeats. 0: a day.
	Lifetime time.Duration
	// CrashCharge is what is charged if the gateway dies with this open.
	CrashCharge CrashCharge
}

// CrashCharge is what a reclaimed reservation is charged.
type CrashCharge string

// The charges of a reclaimed reservation.
const (
	ChargeProgress CrashCharge = "progress" // what was last reported, with its margin; nothing if nothing was
	ChargeFull     CrashCharge = "full"
	ChargeNone     CrashCharge = "none"
)

// Outcome is what a verdict, or one line of it, says.
type Outcome int

// The outcomes, from the mildest.
const (
	Granted     Outcome = iota
	Exceeded            // over a rate; Wait says when it would fit
	NoSlot              // no concurrency slot is free
	HeldBack            // only the caller's own open reservations (the bank cap) are in the way
	Spent               // a calendar budget is spent; Wait is the rest of the period
	NeverFits           // more than the limit's capacity
	Unavailable         // the store could not be asked and the limit is Closed
)

// Verdict answers a Request.
type Verdict struct {
	Outcome Outcome
	// Binding is the index of the line that refuses: of NeverFits the first,
	// else the one with the longest wait; a slot only if no rate is short.
	// -1 if granted.
	Binding int
	// Wait is when the whole request would fit if nobody else came: exact to a
	// millisecond for rates and periods, 0 for slots.
	Wait  time.Duration
	Lines []LineState // one for each of the request's lines, in their order
	// At is the store's time of the decision.
	At time.Time
	// Degraded says that at least one line was decided without the store.
	Degraded bool
	// Repeated says that the ID was already open and this call charged nothing.
	Repeated bool
}

// LineState is a counter as it stands after a decision.
type LineState struct {
	Outcome   Outcome       // of this line alone, shadow lines included
	Remaining int64         // level after this reservation; negative in debt. Slots: free ones
	Capacity  int64         // what Remaining can rise to
	Open      int64         // reserved and not yet settled
	Wait      time.Duration // until this line alone would fit; 0 if it does
	Reset     time.Duration // until full, or until the period ends
	Candidate Outcome       // what the candidate amount would have said; Granted if none

	// Amount and Burst are those in force, as Limit has them: another gateway's
	// file may be newer. 0: not known. Of a gateway's share they are the whole's.
	Amount, Burst int64
}

// Settlement ends a reservation.
type Settlement struct {
	ID    string
	Epoch Epoch
	// Lines are the reservation's, with Amount as reserved: where the counters
	// are. What was taken is read from the store's record, not from here.
	Lines []Line
	// Used is what was used of each line, in order. Slots are freed whatever
	// their number says. With neither Lines nor Used the record is ended as a
	// reclaim would end it, by its CrashCharge: for a reservation that its own
	// gateway no longer knows (anti-entropy).
	Used []int64
}

// Settled is what settling one reservation did.
type Settled struct {
	// Known is false if there was no open record: settled before, reclaimed, or
	// never reserved. Then nothing was changed, but that more use than a reclaim
	// charged is charged in full.
	Known bool
	// Unbooked is what exceeded a line's MaxDebt and was not charged, summed.
	Unbooked int64
}

// Progress tells what an open reservation has used so far, of each line, and
// may give back a part of it.
type Progress struct {
	ID    string
	Lines []Line
	Used  []int64
	// Keep lowers what each line has reserved to this, but not below what was
	// used; the rest goes back at once. It never raises it, so that a repeated or
	// late report does no harm. nil: nothing goes back.
	Keep []int64
	// Crash is what ChargeProgress charges each line if the gateway dies before it
	// tells more: not less than was used, nor more than is reserved. So much stays
	// open until it is Used, for it may yet come back. nil: as told before.
	Crash []int64
	// Lifetime moves the end of the record's life to this long from now. 0: it
	// stays.
	Lifetime time.Duration
}

// Correction lowers a counter to what its provider says is left, or begins it anew.
type Correction struct {
	Line Line
	// AtMost lowers the level to this, never raises it. Negative: unchanged.
	AtMost int64
	// Pause grants nothing for this long. 0: no pause.
	Pause time.Duration
	// Anew makes the counter as if nobody had used it but for what is open; AtMost
	// is ignored then.
	Anew bool
	// Return gives back this much of what the present period, or the bucket, has used;
	// the rest is ignored then. Sliding logs and slots give nothing back. 0: nothing.
	Return int64
}

// Epoch is one life of one gateway process: instance id and start. Records
// belong to the epoch that made them; a fenced epoch makes and settles no more.
type Epoch string

// Outside is the epoch of reservations that belong to no gateway: their caller
// settles them at any one. It is never silent, fenced or counted as alive; its
// records end by their CrashCharge when their Lifetime is over.
const Outside Epoch = "outside"

// Beat answers a heartbeat.
type Beat struct {
	// Fenced says that others reclaimed this epoch: take a new one.
	Fenced bool
	// Live is the number of gateways with a heartbeat, this one included.
	Live int
	// At is the store's time.
	At time.Time
}

// Reclaimed is what a reclaim did.
type Reclaimed struct {
	Epochs  int  // silent epochs that were fenced
	Records int  // reservations that were ended
	More    bool // there is more to do: call again
	// Ended are those of the records that had a tag, so that they can be booked.
	Ended []Ended
}

// Ended is a reservation that a reclaim ended, and what it was charged.
type Ended struct {
	ID string
	// Charged is the most that a counter of each unit was charged, in that unit.
	Charged map[Unit]int64
}

// Add notes that one of the reservation's counters, with this key, was charged n.
func (e *Ended) Add(key string, n int64) {
	parts := strings.SplitN(key, "|", 4) // see KeyPrefix
	if len(parts) < 4 {
		return
	}
	if e.Charged == nil {
		e.Charged = make(map[Unit]int64)
	}
	e.Charged[Unit(parts[2])] = max(e.Charged[Unit(parts[2])], n)
}

// Errors of a Store. Any other error means that the store could not be asked
// or did not answer in time: the call may or may not have been applied.
var (
	ErrConflict = errors.New("budget: the id is in use with other amounts")
	ErrFenced   = errors.New("budget: the epoch is fenced")
	ErrTooLate  = errors.New("budget: the request came after its deadline or its settlement")
	// ErrOverloaded says that this process had no time for the call, which may or
	// may not have been applied. It says nothing about the store.
	ErrOverloaded = errors.New("budget: this process has too much to do")
)

// Store keeps counters and reservations. All methods are safe for concurrent
// use and honour ctx's deadline. All times are the store's. Both
// implementations pass budgettest.Run.
type Store interface {
	// Reserve takes every line of r or none, in one step.
	Reserve(ctx context.Context, r Request) (Verdict, error)
	// Settle ends reservations, each on its own: refill, then charge the
	// difference. Settling twice has no effect. It returns one Settled for each.
	Settle(ctx context.Context, s []Settlement) ([]Settled, error)
	// Enqueue takes s's place in the order of the store's calls and returns at
	// once: a Reserve that this process begins later is decided after s. done is
	// called once with the result, maybe before Enqueue returns. It must not block.
	Enqueue(s Settlement, done func(Settled, error))
	// Report notes what open reservations have used so far, and gives back what
	// they do not keep.
	Report(ctx context.Context, p []Progress) error
	// Read returns counters as they stand now, refilled; Amount is ignored but
	// for LineState.Wait and Outcome, which judge it.
	Read(ctx context.Context, lines []Line) ([]LineState, time.Time, error)
	// Correct lowers, pauses or begins anew counters.
	Correct(ctx context.Context, c []Correction) error

	// Heartbeat says that e lives.
	Heartbeat(ctx context.Context, e Epoch) (Beat, error)
	// Reclaim fences epochs silent for longer than silence and ends up to limit
	// of their reservations, charging each by its CrashCharge.
	Reclaim(ctx context.Context, silence time.Duration, limit int) (Reclaimed, error)
	// Retire ends an epoch in order: all its reservations must be settled; those
	// left are reclaimed at once.
	Retire(ctx context.Context, e Epoch) error
	// OpenIDs lists the reservations that e has open, with their ages.
	OpenIDs(ctx context.Context, e Epoch) (map[string]time.Duration, error)

	// Close frees the store's resources. The counters stay.
	Close() error
}

// Limiter is what a gateway asks: a Store behind a deadline and each limit's
// policy for when the store is away. failover has the one implementation.
// Neither method returns an error: there is always a verdict.
type Limiter interface {
	// Reserve fills in the request's Epoch and deadline and decides it. The
	// Reservation is nil if the request is refused; else it must be settled. An ID
	// is for one call. It blocks for at most the store's timeout.
	Reserve(ctx context.Context, r Request) (*Reservation, Verdict)
	// Correct lowers or pauses a counter. It does not block.
	Correct(c Correction)
}
