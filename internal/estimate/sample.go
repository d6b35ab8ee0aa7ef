package estimate

import (
	"math"
	"unicode/utf8"

	"llmgw/internal/jsonscan"
)

const (
	samples     = 16
	sampleBytes = 16 << 10
)

// sample extrapolates the tokens of a text from windows spread over it, which
// count counts: their mean tokens per byte and twice the standard error of
// that, never more than one token a byte.
func (r *reader) sample(text []byte, count func(*reader, []byte) int) int {
	r.t.sampled = true
	if len(text) <= sampleBytes {
		return count(r, text)
	}
	size := min(sampleBytes, len(text)/samples)
	var sum, squares float64
	for i := range samples {
		at := i * (len(text) - size) / (samples - 1)
		window := text[at : at+size]
		window = window[validStart(window):]
		rate := float64(count(r, window)) / float64(max(1, len(window)))
		sum += rate
		squares += rate * rate
	}
	mean := sum / samples
	deviation := math.Sqrt(max(0, squares/samples-mean*mean) / (samples - 1))
	return int(math.Ceil(min(1, mean+2*deviation) * float64(len(text))))
}

// escapedWindow counts a sample from the inside of a JSON string.
func (r *reader) escapedWindow(text []byte) int {
	r.out = append(append(append(r.out[:0], '"'), text...), '"')
	r.buf = jsonscan.AppendText(r.buf[:0], r.out)
	return r.window(r.buf)
}

// window counts a sample of text.
func (r *reader) window(text []byte) int {
	if !r.model.exact {
		r.t.classify(text)
	}
	return r.encoding.Count(text)
}

// validStart returns the offset of the first whole character of s.
func validStart(s []byte) int {
	for i := range min(len(s), utf8.UTFMax) {
		if utf8.RuneStart(s[i]) {
			return i
		}
	}
	return 0
}
