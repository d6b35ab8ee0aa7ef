package estimate

import (
	"math"

	"llmgw/internal/jsonscan"
)

const (
	samples    = 16       // of one text
	sampleSize = 16 << 10 // bytes of one sample, or of a text that is counted whole
	// mostSampled is how much is counted of samples of one request, in bytes.
	mostSampled = 2 << 20
	// margin is for what is like the samples before it, but was not seen.
	margin = 1.1
)

// sample extrapolates the tokens of a text from windows spread over it, which
// count counts: their mean tokens per byte and twice the standard error of
// that, never more than one token a byte. When a request has had mostSampled of
// samples, what is left of it is taken to be like them.
func (r *reader) sample(text []byte, count func(*reader, []byte) int) int {
	r.t.sampled = true
	if r.sampleLeft <= 0 {
		rate := min(1, margin*float64(r.sampleTokens)/float64(max(1, r.sampleBytes)))
		return int(math.Ceil(rate * float64(len(text))))
	}
	if len(text) <= sampleSize {
		return count(r, text)
	}
	size := min(sampleSize, len(text)/samples)
	var sum, squares float64
	for i := range samples {
		at := i * (len(text) - size) / (samples - 1)
		window := text[at : at+size] // it may start and end within a character
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
	n := r.encoding.Count(text)
	r.sampleLeft -= len(text)
	r.sampleBytes += len(text)
	r.sampleTokens += n
	return n
}
