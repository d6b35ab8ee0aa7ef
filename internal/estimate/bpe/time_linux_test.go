package bpe

import (
	"bytes"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// stretched is a text repeated to 400 KB.
func stretched(text []byte) []byte {
	const size = 400_000
	return bytes.Repeat(text, size/len(text)+1)[:size]
}

// quickest is the least processor time that a count took: neither the clock on
// the wall nor other programs have a say.
func quickest(t *testing.T, e *Encoding, text []byte, times int) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := time.Hour
	for range times {
		start := threadTime(t)
		e.Count(text)
		best = min(best, threadTime(t)-start)
	}
	return best
}

// threadTime is the processor time that this thread has had.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// slowest is how many times longer than English prose of its size any text may
// take. English takes 1 to 3 ms for 400 KB, so this holds everything under
// 150 ms, on slow machines as well.
const slowest = 150

func TestNoTextTakesLong(t *testing.T) {
	vectors := append(readVectors(t, "tiktoken_vectors"), readVectors(t, "tiktoken_fuzz")[:100]...)
	if testing.Short() || raceEnabled {
		vectors = vectors[:60]
	}
	for _, name := range fewer(slices.Concat(names[:2], vendors)) {
		e := get(t, name)
		prose := stretched([]byte(shuffled(english, " ", 100_000)))
		usual := quickest(t, e, prose, 5)
		var worst time.Duration
		var which string
		for i, v := range vectors {
			if v.Bytes == 0 && v.Text == nil || len(v.text()) == 0 {
				continue
			}
			if slices.Contains(vendors, name) && v.Gen == nil && i%8 != 0 {
				continue // the same engine: the rows that are hardest for it will do
			}
			text := stretched(v.text())
			took := quickest(t, e, text, 1)
			if took > slowest*usual {
				took = quickest(t, e, text, 3)
			}
			if took > slowest*usual {
				t.Errorf("%s %s: %v for 400 KB, English takes %v", name, v.ID, took, usual)
			}
			if took > worst {
				worst, which = took, v.ID
			}
		}
		t.Logf("%s: English %v, worst %v (%s)", name, usual, worst, which)
	}
}
