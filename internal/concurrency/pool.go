package concurrency

import "sync"

// Pool is a number of bytes that teams share. A team may hold three times what is
// left free: three quarters of the pool if it is alone, three sevenths if there are
// two that take all they can. So there is always room for a team that holds
// little, and the Pool need not know how many teams there are (Choudhury and
// Hahne, "Dynamic Queue Length Thresholds", 1998).
//
// Its methods do not block and are safe for concurrent use.
type Pool struct {
	mu   sync.Mutex
	size int64
	held map[string]int64
	sum  int64 // of held
}

// perFree is how many bytes a team may hold for each byte that is free.
const perFree = 3

// NewPool returns a Pool of size bytes.
func NewPool(size int64) *Pool { return &Pool{size: size, held: map[string]int64{}} }

// Resize changes the size. What is held stays held.
func (p *Pool) Resize(size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = size
}

// Take takes n bytes for a team, or returns false and takes none.
func (p *Pool) Take(team string, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if free := p.size - p.sum - n; p.held[team]+n > perFree*free {
		return false
	}
	p.held[team] += n
	p.sum += n
	return true
}

// Give gives back n bytes that a team took.
func (p *Pool) Give(team string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum -= n
	if p.held[team] -= n; p.held[team] <= 0 {
		delete(p.held, team)
	}
}

// Held is the number of bytes that all teams hold.
func (p *Pool) Held() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sum
}
