package bpe

import "bytes"

// shortestRepeat is the length from which one byte repeated is treated apart.
const shortestRepeat = 48

// repeated tells whether s is one byte, again and again.
func repeated(s []byte) bool {
	return s[0] == s[len(s)-1] && bytes.Equal(s[1:], s[:len(s)-1])
}

// series is a token n times in a row.
type series struct {
	token uint32
	n     int
}

// mergeRepeated is merge for n times the byte b. All merges of two equal
// tokens in a series happen before anything that contains their product can,
// so they are done at once; it takes a number of steps logarithmic in n.
func (c *counter) mergeRepeated(b byte, n int, emit func([]uint32)) {
	var room [32]series
	all := append(room[:0], series{c.single[b], n})
	for {
		rank, at, inside := c.lowest(all)
		if rank == none {
			break
		}
		s := all[at]
		if inside {
			pair := series{rank, s.n / 2}
			all = replace(all, at, 1, pair, series{s.token, s.n % 2})
			continue
		}
		next := all[at+1]
		all = replace(all, at, 2, series{s.token, s.n - 1}, series{rank, 1}, series{next.token, next.n - 1})
	}
	c.emitSeries(all, emit)
}

// lowest finds the merge of the lowest rank, the leftmost of equals: inside the
// series at all[at], or of its last token with the first of the next series.
func (c *counter) lowest(all []series) (rank uint32, at int, inside bool) {
	rank = none
	for i, s := range all {
		if s.n > 1 {
			if m := c.pairs.merge(s.token, s.token); m < rank {
				rank, at, inside = m, i, true
			}
		}
		if i+1 < len(all) {
			if m := c.pairs.merge(s.token, all[i+1].token); m < rank {
				rank, at, inside = m, i, false
			}
		}
	}
	return rank, at, inside
}

// replace puts other series where n stood, leaves out the empty ones, and
// joins neighbours of one token.
func replace(all []series, at, n int, with ...series) []series {
	var room [32]series
	tail := append(room[:0], all[at+n:]...)
	all = all[:at]
	for _, list := range [2][]series{with, tail} {
		for _, s := range list {
			if last := len(all) - 1; s.n > 0 && last >= 0 && all[last].token == s.token {
				all[last].n += s.n
			} else if s.n > 0 {
				all = append(all, s)
			}
		}
	}
	return all
}

// emitSeries gives the tokens to emit, in parts that fit the stack.
func (c *counter) emitSeries(all []series, emit func([]uint32)) {
	stack := c.stack[:0]
	for _, s := range all {
		for range s.n {
			if len(stack) == cap(stack) {
				emit(stack)
				stack = stack[:0]
			}
			stack = append(stack, s.token)
		}
	}
	emit(stack)
}
