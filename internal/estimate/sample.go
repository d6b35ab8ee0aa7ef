package estimate

import (
	"math"

	"llmgw/internal/jsonscan"
)

const (
	samples     = 16
	sampleBytes = 16 << 10
)

// sample extrapolates the tokens of a text from windows spread over it: their
// mean tokens per byte and twice the standard error of that, never more than
// one token a byte. With escaped, the text is the inside of a JSON string.
func (r *reader) sample(text []byte, escaped bool) int {
	r.t.sampled = true
	if len(text) <= sampleBytes {
		return r.window(text, escaped)
	}
	size := min(sampleBytes, len(text)/samples)
	var sum, squares float64
	for i := range samples {
		at := i * (len(text) - size) / (samples - 1)
		window := text[at : at+size]
		window = window[validStart(window):]
		rate := float64(r.window(window, escaped)) / float64(max(1, len(window)))
		sum += rate
		squares += rate * rate
	}
	mean := sum / samples
	deviation := math.Sqrt(max(0, squares/samples-mean*mean) / (samples - 1))
	return int(math.Ceil(min(1, mean+2*deviation) * float64(len(text))))
}

// window counts one sample.
func (r *reader) window(text []byte, escaped bool) int {
	if escaped {
		r.out = append(append(append(r.out[:0], '"'), text...), '"')
		r.buf = jsonscan.AppendText(r.buf[:0], r.out)
		text = r.buf
	}
	if !r.model.exact {
		r.t.classify(text)
	}
	return r.encoding.Count(text)
}
