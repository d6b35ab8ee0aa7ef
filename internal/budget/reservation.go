package budget

import (
	"context"
	"strconv"
	"sync"
)

// Reservation is what one granted request holds of its limits.
//
//	Reserve ──► open ──Settle──► ended
//	            │  ▲
//	            └──┘ Sent, Report, Extend
//
// Its methods are safe for concurrent use, and none but Extend blocks. A nil
// Reservation holds nothing, and its methods do nothing. The zero Reservation is
// for a Limiter to Open.
type Reservation struct {
	limiter Limiter
	holder  Holder
	Request Request // as it was granted; not to be changed

	mu       sync.Mutex
	ended    bool
	extended int            // times that Extend has asked
	more     []*Reservation // what it was granted, in order
}

// Holder is a Limiter's side of one Reservation. Settle is called once; Sent and
// Report may still be called after it. None may block, nor keep used.
type Holder interface {
	Sent(used []int64)
	Report(used []int64)
	Settle(used []int64)
}

// Open makes r the reservation of q, which h keeps and l extends. It is called
// once, before anybody else has r.
func (r *Reservation) Open(l Limiter, h Holder, q Request) { r.limiter, r.holder, r.Request = l, h, q }

// ExtendBy lets l decide what Extend asks for from now on. It is called before
// the request has r.
func (r *Reservation) ExtendBy(l Limiter) { r.limiter = l }

// Join adds part to r, as if Extend had been granted it. It is called before the
// request has r.
func (r *Reservation) Join(part *Reservation) { r.more = append(r.more, part) }

// Sent notes what each line is charged if this gateway dies before an answer
// begins: the request is on its way to the provider. It may still come back, so
// it does not count as used. used is copied.
func (r *Reservation) Sent(used []int64) { r.each(used, false, Holder.Sent) }

// Report notes what was used of each line so far: a crash charges it with a
// margin, and what is open shrinks by it. used is copied.
func (r *Reservation) Report(used []int64) { r.each(used, false, Holder.Report) }

// Settle ends the reservation: used is what was used of each line, and is
// copied. Only the first call has an effect. It may be deferred: it returns
// at once, also after a panic in the code that holds r.
func (r *Reservation) Settle(used []int64) { r.each(used, true, Holder.Settle) }

// each passes used on to what holds it: the reservation itself up to what it has
// reserved, and then each extension in turn. The last one has the rest.
func (r *Reservation) each(used []int64, end bool, do func(Holder, []int64)) {
	if r == nil {
		return
	}
	r.mu.Lock()
	over, more := r.ended, r.more
	r.ended = over || end
	r.mu.Unlock()
	if over {
		return
	}
	if len(more) == 0 {
		do(r.holder, used)
		return
	}
	rest := append([]int64(nil), used...)
	part := make([]int64, len(used))
	for i, of := range append([]*Reservation{r}, more...) {
		for j := range rest {
			if part[j] = rest[j]; i < len(more) && j < len(of.Request.Lines) {
				part[j] = min(rest[j], of.Request.Lines[j].Amount)
			}
			rest[j] -= part[j]
		}
		do(of.holder, part)
	}
}

// Extend takes that much more of each line, all of it or nothing, as a request
// of its own would. If that is granted the reservation holds the sum, and what
// was used counts for the sum. If it is refused, or r has ended, r is as it
// was. It blocks as Limiter.Reserve does.
func (r *Reservation) Extend(ctx context.Context, more []int64) Verdict {
	refused := Verdict{Outcome: Unavailable, Binding: -1}
	if r == nil || len(more) != len(r.Request.Lines) {
		return refused
	}
	q := r.Request
	q.Lines = append([]Line(nil), q.Lines...)
	for i := range q.Lines {
		q.Lines[i].Amount = more[i]
	}
	r.mu.Lock()
	over := r.ended
	r.extended++
	q.ID = Suffixed(q.ID, "+"+strconv.Itoa(r.extended))
	r.mu.Unlock()
	if over {
		return refused
	}
	part, v := r.limiter.Reserve(ctx, q)
	if part == nil {
		return v
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended { // meanwhile
		part.Settle(make([]int64, len(more)))
		return refused
	}
	r.more = append(r.more[:len(r.more):len(r.more)], part)
	return v
}
