package failover

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/tokens"
)

// backlog is what was spent without the store, or beyond a Bulk, and is not
// posted yet, summed by counter: an outage costs memory by counters, not by
// requests.
type backlog struct {
	mu    sync.Mutex
	limit int
	owed  map[budget.CounterID]budget.Line
	posts []*post // on their way; the worker's, but for their ids and lines
	count int
}

// post is a part of the backlog, with an id, so that it is charged once however
// often it is sent.
type post struct {
	request  budget.Request
	reserved bool // the store has the record; it must still be settled
}

// postLines is the most counters of one post.
const postLines = 16

func (b *backlog) init(limit int) {
	b.limit = limit
	b.owed = make(map[budget.CounterID]budget.Line)
}

func (b *backlog) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.owed) + len(b.posts)
}

// add adds n to what is to be posted of a line's counter; it fails if there are
// too many counters.
func (b *backlog) add(line budget.Line, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := line.Counter()
	was, ok := b.owed[k]
	if !ok && len(b.owed) >= b.limit {
		return false
	}
	line.Amount = min(was.Amount+n, int64(tokens.MaxCount))
	b.owed[k] = line
	return true
}

// posting lists the ids of the posts on their way.
func (b *backlog) posting() (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.posts {
		ids = append(ids, p.request.ID)
	}
	return ids
}

// subtract takes what is yet to be posted from the states of lines.
func (b *backlog) subtract(lines []budget.Line, states []budget.LineState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.owed)+len(b.posts) == 0 {
		return
	}
	for i, line := range lines {
		k := line.Counter()
		n := b.owed[k].Amount
		for _, p := range b.posts {
			for _, l := range p.request.Lines {
				if !p.reserved && l.Counter() == k {
					n += l.Amount
				}
			}
		}
		states[i].Remaining -= n
	}
}

// take makes posts of all that is owed, and returns them with those on their way.
func (b *backlog) take(prefix string) []*post {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []budget.Line
	flush := func() {
		if len(lines) == 0 {
			return
		}
		b.count++
		b.posts = append(b.posts, &post{request: budget.Request{
			ID: prefix + strconv.Itoa(b.count), Lines: lines, Force: true, CrashCharge: budget.ChargeFull,
		}})
		lines = nil
	}
	for _, line := range b.owed {
		lines = append(lines, line)
		if len(lines) == postLines {
			flush()
		}
	}
	flush()
	clear(b.owed)
	return append([]*post(nil), b.posts...)
}

// reserved notes that the store has charged p, in an epoch.
func (b *backlog) reserved(p *post, e budget.Epoch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.request.Epoch, p.reserved = e, true
}

// parting is what is left to say of the posts on their way, at the end of epoch e.
func (b *backlog) parting(e budget.Epoch) (posts []budget.Request, ends []budget.Settlement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.posts {
		if !p.reserved {
			request := p.request
			request.Epoch = e
			posts = append(posts, request)
		}
		ends = append(ends, p.settlement())
	}
	return posts, ends
}

// done forgets a post that was made.
func (b *backlog) done(p *post) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, q := range b.posts {
		if q == p {
			b.posts = append(b.posts[:i], b.posts[i+1:]...)
			return
		}
	}
}

// settlement ends p with all of it used.
func (p *post) settlement() budget.Settlement {
	used := make([]int64, len(p.request.Lines))
	for i, line := range p.request.Lines {
		used[i] = line.Amount
	}
	return budget.Settlement{ID: p.request.ID, Epoch: p.request.Epoch, Lines: p.request.Lines, Used: used}
}

// postBacklog tells the store what was spent without it.
func (w *worker) postBacklog() bool {
	if w.backlog.len() == 0 {
		return true
	}
	for _, p := range w.takeBacklog() {
		if !w.Up() || !w.postOne(p) {
			return false
		}
	}
	return true
}

// takeBacklog makes posts of all that is owed.
func (l *Limiter) takeBacklog() []*post {
	return l.backlog.take("post-" + string(l.keeper.Epoch()) + "-")
}

// postOne charges one post: forced, then settled with all of it used.
func (w *worker) postOne(p *post) bool {
	if !p.reserved {
		request := p.request
		if !w.force(&request) {
			return false
		}
		w.backlog.reserved(p, request.Epoch)
	}
	ctx, cancel := w.background()
	defer cancel()
	start := time.Now()
	settled, err := w.store.Settle(ctx, []budget.Settlement{p.settlement()})
	if !w.judge("settle", time.Since(start), err) {
		return false
	}
	w.backlog.done(p)
	for _, s := range settled {
		w.unbooked(p.request.ID, s.Unbooked)
	}
	return true
}

// force makes a reservation whatever the levels, and reports whether the store
// has it now.
func (w *worker) force(r *budget.Request) bool {
	outside := r.Epoch == budget.Outside
	for range 2 {
		if !outside {
			r.Epoch = w.keeper.Epoch()
		}
		ctx, cancel := w.background()
		start := time.Now()
		_, err := w.store.Reserve(ctx, *r)
		cancel()
		if !w.judge("post", time.Since(start), err) {
			return false
		}
		if outside || !errors.Is(err, budget.ErrFenced) {
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

// forced is r's request for a store that must take it, and may know it.
func (r *record) forced() budget.Request {
	request := r.held.Request
	request.ID, request.Force, request.NotAfter = r.storeID(), true, time.Time{}
	return request
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

	request := r.forced()
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
