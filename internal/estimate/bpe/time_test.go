package bpe

import (
	"bytes"
	"testing"
	"time"
)

// stretched is a text repeated to 400 KB.
func stretched(text []byte) []byte {
	const size = 400_000
	return bytes.Repeat(text, size/len(text)+1)[:size]
}

// quickest is the shortest of some counts, which other programs on the machine
// disturb least.
func quickest(e *Encoding, text []byte, times int) time.Duration {
	best := time.Hour
	for range times {
		start := time.Now()
		e.Count(text)
		best = min(best, time.Since(start))
	}
	return best
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
	for _, name := range names[:2] {
		e := get(t, name)
		prose := stretched([]byte(shuffled(english, " ", 100_000)))
		usual := quickest(e, prose, 5)
		var worst time.Duration
		var which string
		for _, v := range vectors {
			if v.Bytes == 0 && v.Text == nil || len(v.text()) == 0 {
				continue
			}
			text := stretched(v.text())
			took := quickest(e, text, 1)
			if took > slowest*usual {
				took = quickest(e, text, 3)
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
