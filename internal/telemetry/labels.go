package telemetry

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// other stands for every value of a label beyond its bound.
const other = "other"

// maxLabelLength bounds one label value, in bytes.
const maxLabelLength = 128

// bound admits the first so many distinct values of one label; the rest is
// other. It is safe for concurrent use and does not allocate for a value that
// it has seen.
type bound struct {
	most int

	mu   sync.RWMutex
	seen map[string]string // value as it came → as it is shown
}

func newBound(most int) *bound {
	return &bound{most: most, seen: make(map[string]string)}
}

// value returns v as it is shown: valid UTF-8 of bounded length, or other. The
// result never aliases v, which may be a slice of a whole request body.
func (b *bound) value(v string) string {
	b.mu.RLock()
	shown, ok := b.seen[v]
	full := len(b.seen) >= b.most
	b.mu.RUnlock()
	if ok {
		return shown
	}
	if full || v == other {
		return other
	}
	return b.admit(v)
}

func (b *bound) admit(v string) string {
	if len(v) > maxLabelLength {
		// Too long to be remembered as a key, and nobody's real name.
		return other
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if shown, ok := b.seen[v]; ok {
		return shown
	}
	if len(b.seen) >= b.most {
		return other
	}
	v = strings.Clone(v)
	shown := v
	if !utf8.ValidString(v) {
		shown = strings.ToValidUTF8(v, "\uFFFD")
	}
	b.seen[v] = shown
	return shown
}

// series finds the metrics of one label set. Its keys are made of bounded
// values only, so that it is bounded too. It is safe for concurrent use and
// does not allocate for a key that it has seen.
type series[K comparable, V any] struct {
	open func(K) V

	mu   sync.RWMutex
	seen map[K]V
}

func newSeries[K comparable, V any](open func(K) V) *series[K, V] {
	return &series[K, V]{open: open, seen: make(map[K]V)}
}

func (s *series[K, V]) of(k K) V {
	s.mu.RLock()
	v, ok := s.seen[k]
	s.mu.RUnlock()
	if ok {
		return v
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.seen[k]; ok {
		return v
	}
	v = s.open(k)
	s.seen[k] = v
	return v
}
