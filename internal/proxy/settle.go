package proxy

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/ledger"
	"llmgw/internal/tokens"
	"llmgw/internal/upstream"
)

// settlement ends one reservation exactly once, whoever calls it first.
type settlement struct {
	gateway  *Gateway
	plan     *plan
	held     reservation
	attempt  *attempt // of the call, which ends when this is done
	asking   *asking  // what the call is about, if that is a response
	done     bool
	ending   charge.Ending
	goesOn   string        // the response that goes on without the call; else empty
	reported time.Time     // the last progress report
	used     []int64       // of ending, by line; nil: it is not settled
	tries    []ledger.Try  // that were sent
	first    [1]ledger.Try // room for most
	sent     atomic.Bool   // a try's request was written whole, and has not failed
	lost     charge.Ending // what tries used that timed out, and were given up
	answered tokens.Usage  // of ending: without what is lost
}

// settle charges e, wakes who waits for the limits, and remembers e for the
// record. Only the first call has an effect. It never blocks.
func (s *settlement) settle(e charge.Ending) {
	if s.done {
		return
	}
	s.done, s.ending, s.answered = true, s.withLost(e), e.Usage
	s.charge(s.ending)
}

// leaveOpen keeps the reservation until the end of the response id is seen; a
// crash charges e until then.
func (s *settlement) leaveOpen(id string, e charge.Ending) {
	if s.done {
		return
	}
	s.done, s.ending, s.answered, s.goesOn = true, e, e.Usage, id
	s.held.Report(s.plan.Amounts(e.Usage, e.Requests))
}

// charge ends the reservation.
func (s *settlement) charge(e charge.Ending) {
	if s.held.Reservation == nil {
		return
	}
	s.used = s.plan.Amounts(e.Usage, e.Requests)
	s.held.Settle(s.used)
	s.gateway.freed(s.plan.Lines, s.used)
}

// Wrote implements upstream.Watcher. It reports what a crash is to charge from now
// until an answer begins. It is called while others use s.
func (s *settlement) Wrote(err error) {
	s.sent.Store(err == nil)
	if err != nil || s.held.Reservation == nil {
		return
	}
	e := s.plan.LeftEarly(0, charge.ClientGone)
	s.held.Sent(s.plan.Amounts(e.Usage, e.Requests))
}

// Failed implements upstream.Watcher: what was written to a target has come to nothing: until
// another try is written, the call costs no more. A try that we gave up since it
// took too long has cost what such calls cost: its provider worked on it.
func (s *settlement) Failed(t upstream.Target, err *fault.Error) {
	if sent := s.sent.Swap(false); !sent || err == nil || err.Code != fault.UpstreamTimeout {
		return
	}
	e := s.plan.LeftEarly(max(0, slices.Index(s.plan.Targets, t)), charge.TimedOut)
	s.lost = s.withLost(e)
}

// Tried implements upstream.Watcher.
func (s *settlement) Tried(t upstream.Target, status int, err *fault.Error, took time.Duration) {
	tried := ledger.Try{
		Provider: t.Provider.Name, ProviderModel: cmp.Or(t.Model, s.plan.Call.Model), Status: status, MS: float64(took.Microseconds()) / 1000,
	}
	if err != nil {
		tried.Code = string(err.Code)
	}
	if s.tries == nil {
		s.tries = s.first[:0]
	}
	s.tries = append(s.tries, tried)
}

// withLost is e and what was lost before.
func (s *settlement) withLost(e charge.Ending) charge.Ending {
	if s.lost.Requests == 0 {
		return e
	}
	e.Usage.Input = tokens.Add(e.Usage.Input, s.lost.Usage.Input)
	e.Usage.Output = tokens.Add(e.Usage.Output, s.lost.Usage.Output)
	e.Estimated, e.Requests = true, max(e.Requests, s.lost.Requests)
	return e
}

// progressEvery is how often a running stream tells the store what it has used:
// a crash then charges that, and what is still open shrinks.
const progressEvery = 5 * time.Second

// progress reports what the answer has used so far, at most once in
// progressEvery.
func (s *settlement) progress(now time.Time, m dialect.Meter, status int) {
	if s.held.Reservation == nil || s.done || now.Sub(s.reported) < progressEvery {
		return
	}
	s.reported = now
	e := s.withLost(s.plan.Metered(charge.ClientGone, status, m.Report()))
	s.held.Report(s.plan.Amounts(e.Usage, e.Requests))
}
