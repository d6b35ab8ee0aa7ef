package estimate

import (
	"math"
	"math/bits"
	"sync"

	"llmgw/internal/tokens"
)

// How outputs are learned.
const (
	outputQuantile = 0.99
	// outputEnough answers must have been seen before anything is said.
	outputEnough = 30
	// outputWindow is the number of answers after which all count half, so that
	// what is old fades.
	outputWindow = 2000
	// Sizes fall into steps of an eighth of a power of two: 9 % at most.
	outputSteps = 8
	outputSlots = 24 * outputSteps
)

// outputKey is a model as clients name it, used by a team; kinds are 0 but for
// hidden input.
type outputKey struct {
	team, model string
	kinds       hiddenKinds
}

// sizes is a histogram of outputs for one choice.
type sizes struct {
	total uint32
	slots [outputSlots]uint16
}

// outputs learns how long answers really are. It is safe for concurrent use,
// and bounded as ratios is.
type outputs struct {
	mu   sync.RWMutex
	most int
	all  map[outputKey]*sizes
}

func newOutputs(most int) *outputs { return &outputs{most: most, all: map[outputKey]*sizes{}} }

// likely returns what all but one answer of a hundred stay within; false while
// fewer than enough were seen.
func (o *outputs) likely(k outputKey, enough uint32) (tokens.Count, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	s := o.all[k]
	if s == nil || s.total < enough {
		return 0, false
	}
	return s.quantile(outputQuantile), true
}

func (o *outputs) observe(k outputKey, n tokens.Count) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.all[k]
	if s == nil {
		if len(o.all) >= o.most {
			forgetFewest(o.all, func(s *sizes) int64 { return int64(s.total) })
		}
		s = new(sizes)
		o.all[k] = s
	}
	s.add(n)
}

// add counts one answer of n tokens.
func (s *sizes) add(n tokens.Count) {
	s.slots[slotOf(n)]++
	if s.total++; s.total >= outputWindow {
		s.total = 0
		for i := range s.slots {
			s.slots[i] /= 2
			s.total += uint32(s.slots[i])
		}
	}
}

// quantile returns the upper end of the slot that the quantile q falls into.
func (s *sizes) quantile(q float64) tokens.Count {
	rank := uint32(math.Ceil(q * float64(s.total)))
	var seen uint32
	for i, n := range s.slots {
		if seen += uint32(n); seen >= rank {
			return slotEnd(i)
		}
	}
	return slotEnd(outputSlots - 1)
}

// slotOf returns the slot of n: n itself below outputSteps; else the power of
// two below n, and which eighth above it n is in.
func slotOf(n tokens.Count) int {
	if n < outputSteps {
		return max(0, int(n))
	}
	power := bits.Len64(uint64(n)) - 1
	eighth := int(n>>(power-3)) & (outputSteps - 1)
	return min((power-2)*outputSteps+eighth, outputSlots-1)
}

// slotEnd is the largest number in a slot.
func slotEnd(slot int) tokens.Count {
	if slot < outputSteps {
		return tokens.Count(slot)
	}
	power, eighth := slot/outputSteps+2, slot%outputSteps
	return tokens.Count(outputSteps+eighth+1)<<(power-3) - 1
}
