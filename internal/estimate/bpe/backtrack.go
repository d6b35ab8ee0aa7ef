package bpe

import "runtime"

const (
	// window is the most of a piece, in bytes, that is encoded at once: it
	// bounds the working memory.
	window = 16 << 10
	// overlap is how much of a window's end is encoded again with what follows.
	overlap = 256
	// tries is how many places are tried to join two windows.
	tries = 16
	// yieldEvery is after how many bytes a count lets others run.
	yieldEvery = 32 << 10
)

// yield lets other goroutines run, so that a long count does not keep short
// ones waiting for a time slice.
func yield() { runtime.Gosched() }

// merge encodes a piece that is not one token, and gives its tokens to emit in
// one or more calls.
func (c *counter) merge(piece []byte, emit func([]uint32)) {
	switch {
	case len(piece) >= shortestRepeat && repeated(piece):
		c.mergeRepeated(piece[0], len(piece), emit)
	case len(piece) > window:
		c.mergeLong(piece, emit)
	default:
		c.mergeWindow(piece)
		emit(c.stack)
	}
}

// mergeLong is merge window by window. Tokens of which each two neighbours are
// compatible are the encoding, whichever way they were found; so a window's
// tokens are kept up to some place near its end, the next window starts there,
// and the joint is right if the two tokens that meet are compatible. If they
// are not, the next window starts a token earlier, up to tries times. (No text
// is known that needs more; one that did would be a token off.)
func (c *counter) mergeLong(piece []byte, emit func([]uint32)) {
	held := c.held[:0] // of the window before, not yet emitted
	for start, end := 0, 0; end < len(piece); {
		end = min(start+window, len(piece))
		c.mergeWindow(piece[start:end])
		for range tries {
			n := len(held)
			if n == 0 || c.fits(held[n-1], c.stack[0]) {
				break
			}
			start -= int(c.lengths[held[n-1]])
			held = held[:n-1]
			end = min(start+window, len(piece))
			c.mergeWindow(piece[start:end])
		}
		emit(held)
		kept, size := c.before(overlap)
		if end == len(piece) {
			kept = len(c.stack)
		}
		held = append(held[:0], c.stack[:kept]...)
		start += end - start - size
		yield()
	}
	emit(held)
	c.held = held[:0]
}

// before returns how many tokens of the stack stand before its last bytes, and
// how many bytes the others have: at least n.
func (c *counter) before(n int) (kept, size int) {
	kept = len(c.stack)
	for kept > 1 && size < n {
		kept--
		size += int(c.lengths[c.stack[kept]])
	}
	return kept, size
}

// mergeWindow leaves the tokens of s, at most a window, on the stack.
func (c *counter) mergeWindow(s []byte) {
	if !c.backtrack(s) {
		c.stack = c.merger.encode(c.vocabulary, s, c.stack[:0])
	}
}

// backtrack leaves the tokens of s on the stack. It takes the longest token
// that fits the one before, and goes back where none fits; a place that turned
// out to be a dead end is never entered again. It returns false if it gave up,
// after twice as many steps as s has bytes.
func (c *counter) backtrack(s []byte) bool {
	stack := c.stack[:0]
	for i := range c.alive[:len(s)/64+1] {
		c.alive[i] = ^uint64(0)
	}
	at, last := 0, none
	next := c.trie.longest(s, &c.single)
	for budget := 2*len(s) + 16; budget > 0; budget-- {
		end := at + int(c.lengths[next])
		if c.alive[end>>6]>>(end&63)&1 != 0 && (last == none || c.fits(last, next)) {
			stack = append(stack, next)
			if end == len(s) {
				c.stack = stack
				return true
			}
			at, last = end, next
			next = c.trie.longest(s[at:], &c.single)
			continue
		}
		if shorter := c.shorter[next]; shorter != none {
			next = shorter
			continue
		}
		if last == none {
			return false // cannot be: every text has an encoding
		}
		c.alive[at>>6] &^= 1 << (at & 63)
		stack = stack[:len(stack)-1]
		at -= int(c.lengths[last])
		next, last = last, none
		if len(stack) > 0 {
			last = stack[len(stack)-1]
		}
	}
	return false
}
