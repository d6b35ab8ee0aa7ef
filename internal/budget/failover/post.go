package failover

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/tokens"
)

// debts is what was spent without the store and is not posted yet, summed by
// counter: an outage costs memory by counters, not by requests.
type debts struct {
	mu    sync.Mutex
	limit int
	owed  map[counterKey]int64
	posts []*post // on their way; the worker's, but for their ids
	count int
}

// post is a part of the debts, with an id, so that it is charged once however
// often it is sent.
type post struct {
	request  budget.Request
	reserved bool // the store has the record; it must still be settled
}

// postLines is the most counters of one post.
const postLines = 16

func (d *debts) init(limit int) {
	d.limit = limit
	d.owed = make(map[counterKey]int64)
}

func (d *debts) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.owed) + len(d.posts)
}

// add owes n more of a counter; it fails if there are too many counters.
func (d *debts) add(k counterKey, n int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was, ok := d.owed[k]
	if !ok && len(d.owed) >= d.limit {
		return false
	}
	d.owed[k] = min(was+n, int64(tokens.MaxCount))
	return true
}

// posting tells whether id is a post on its way.
func (d *debts) posting(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.posts {
		if p.request.ID == id {
			return true
		}
	}
	return false
}

// take makes posts of all that is owed, and returns them with those on their way.
func (d *debts) take(prefix string) []*post {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lines []budget.Line
	flush := func() {
		if len(lines) == 0 {
			return
		}
		d.count++
		d.posts = append(d.posts, &post{request: budget.Request{
			ID: prefix + strconv.Itoa(d.count), Lines: lines, Force: true, CrashCharge: budget.ChargeFull,
		}})
		lines = nil
	}
	for k, n := range d.owed {
		lines = append(lines, budget.Line{Limit: k.limit, Value: k.value, Amount: n})
		if len(lines) == postLines {
			flush()
		}
	}
	flush()
	clear(d.owed)
	return append([]*post(nil), d.posts...)
}

// done forgets a post that was made.
func (d *debts) done(p *post) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, q := range d.posts {
		if q == p {
			d.posts = append(d.posts[:i], d.posts[i+1:]...)
			return
		}
	}
}

// postDebts tells the store what was spent without it.
func (w *worker) postDebts() bool {
	if w.debts.len() == 0 {
		return true
	}
	for _, p := range w.debts.take("post-" + string(w.keeper.Epoch()) + "-") {
		if !w.Up() || !w.postDebt(p) {
			return false
		}
	}
	return true
}

// postDebt charges one post: forced, then settled with all of it used.
func (w *worker) postDebt(p *post) bool {
	if !p.reserved {
		if !w.force(&p.request) {
			return false
		}
		p.reserved = true
	}
	used := make([]int64, len(p.request.Lines))
	for i, line := range p.request.Lines {
		used[i] = line.Amount
	}
	ctx, cancel := w.background()
	defer cancel()
	start := time.Now()
	_, err := w.store.Settle(ctx, []budget.Settlement{{
		ID: p.request.ID, Epoch: p.request.Epoch, Lines: p.request.Lines, Used: used,
	}})
	if !w.judge("settle", time.Since(start), err) {
		return false
	}
	w.debts.done(p)
	return true
}

// force makes a reservation whatever the levels, and tells whether the store
// has it now.
func (w *worker) force(r *budget.Request) bool {
	for range 2 {
		r.Epoch = w.keeper.Epoch()
		ctx, cancel := w.background()
		start := time.Now()
		_, err := w.store.Reserve(ctx, *r)
		cancel()
		if !w.judge("post", time.Since(start), err) {
			return false
		}
		if !errors.Is(err, budget.ErrFenced) {
			// A conflict, or one too late, is an earlier try that came through.
			return true
		}
		w.keeper.Renew(r.Epoch)
	}
	return false
}

// posters is how many open reservations are posted at a time.
const posters = 16

// postOpen tells the store of the reservations that were granted without it
// and are still open, so that they count there and hold their slots.
func (w *worker) postOpen() bool {
	list := w.records.unposted()
	var group sync.WaitGroup
	turns := make(chan struct{}, posters)
	for _, r := range list {
		if !w.Up() || w.ctx.Err() != nil {
			break
		}
		turns <- struct{}{}
		group.Go(func() {
			defer func() { <-turns }()
			w.postRecord(r)
		})
	}
	group.Wait()
	return w.Up() && len(w.records.unposted()) == 0
}

// postRecord tells the store of one. Its settlement may come at any moment: as
// soon as a post was tried, only the post's answer can let it pass.
func (w *worker) postRecord(r *record) {
	r.mu.Lock()
	if r.posted == unknown && r.ended {
		r.mu.Unlock()
		return
	}
	r.posted = tried
	r.mu.Unlock()

	request := budget.Request{
		ID: r.storeID(), Lines: r.lines, Force: true, Lifetime: r.lifetime, CrashCharge: r.crash,
	}
	if !w.force(&request) {
		return
	}
	r.mu.Lock()
	if r.posted != tried { // dropped meanwhile
		r.mu.Unlock()
		return
	}
	r.posted, r.epoch = known, request.Epoch
	ended := r.ended
	r.mu.Unlock()
	w.records.local.Add(-1)
	if ended {
		w.queue.push(r) // admitted by Settle
		w.nudge()
	}
}
