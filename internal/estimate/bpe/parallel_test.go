package bpe

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestWorkersTogetherCountWhatOneCounts(t *testing.T) {
	e := get(t, "o200k_base")
	r := rand.New(rand.NewPCG(81, 82))
	texts := map[string][]byte{
		"nothing": nil, "a letter": []byte("a"), "two words": []byte("hello world"),
		"nowhere to cut": bytes.Repeat([]byte("=-"), 50_000), "only blanks": bytes.Repeat([]byte(" "), 50_000),
		"a cut at the very end": []byte(strings.Repeat(".", 1000) + "a "),
		"all sorts":             []byte(randomText(r, 50_000)), "prose": []byte(shuffled(english, " ", 60_000)),
	}
	for what, text := range texts {
		want := e.Count(text)
		for _, workers := range []int{-1, 0, 1, 2, 3, 8, 100} {
			if got := e.CountParallel(text, workers); got != want {
				t.Errorf("%s with %d workers: %d, want %d", what, workers, got, want)
			}
		}
	}
}

func TestChunksAreTheWholeTextInOrder(t *testing.T) {
	text := []byte(shuffled(english, " ", 30_000))
	queue := chunks{rest: text, size: 1000}
	var back []byte
	n := 0
	for chunk := queue.next(); len(chunk) > 0; chunk = queue.next() {
		back = append(back, chunk...)
		n++
	}
	if !bytes.Equal(back, text) || n < 25 || n > 30 {
		t.Errorf("%d chunks of %d bytes, want about 30 of %d in all", n, len(back), len(text))
	}
}
