package bpe

import (
	"sync"
	"unicode/utf8"
)

// chunksPerWorker is how many chunks each worker gets if all are as fast: one
// that is late or slow gets fewer.
const chunksPerWorker = 6

// CountParallel is Count on up to workers goroutines, the caller's included. It
// is worth it above 100 KB when cores are idle.
func (e *Encoding) CountParallel(text []byte, workers int) int {
	if workers < 2 {
		return e.Count(text)
	}
	queue := chunks{rest: text, size: len(text)/(workers*chunksPerWorker) + 1}
	counts := make(chan int, workers)
	for range workers - 1 {
		go func() { counts <- e.countChunks(&queue) }()
	}
	n := e.countChunks(&queue)
	for range workers - 1 {
		n += <-counts
	}
	return n
}

// countChunks counts chunks until none are left.
func (e *Encoding) countChunks(queue *chunks) int {
	c := e.take()
	defer e.give(c)
	n := 0
	for {
		chunk := queue.next()
		if len(chunk) == 0 {
			return n
		}
		n += e.count(c, chunk)
	}
}

// chunks hands out a text in parts whose counts add up to that of the whole.
type chunks struct {
	mu   sync.Mutex
	rest []byte
	size int
}

// next returns the next chunk; empty if there is none.
func (q *chunks) next() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	end := Cut(q.rest, q.size)
	if end == 0 {
		end = len(q.rest)
	}
	chunk := q.rest[:end]
	q.rest = q.rest[end:]
	return chunk
}

// Cut returns a place at or after at where a piece ends in all encodings
// whatever stands around it: between a letter or number and a blank or line
// feed, or, for scripts that have no blanks, between a letter and a sign that is
// not of ASCII. There text can be cut so that the counts of both sides add up to
// that of the whole. 0: there is none.
func Cut(text []byte, at int) int {
	for i := max(at, 1); i < len(text); i++ {
		ends := letters | number
		switch b := text[i]; {
		case b == ' ', b == '\n':
		case utf8.RuneStart(b) && b >= utf8.RuneSelf:
			if c, w := wideClass(text[i:]); c != other || w == 1 {
				continue
			}
			ends = letters
		default:
			continue
		}
		if classBefore(text, i)&ends != 0 {
			return i
		}
	}
	return 0
}

// classBefore returns the class of the character that ends at s[i], i > 0.
func classBefore(s []byte, i int) class {
	_, w := utf8.DecodeLastRune(s[:i])
	c, _ := classAt(s, i-w)
	return c
}
