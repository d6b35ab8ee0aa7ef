package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"llmgw/internal/budget"
)

// Numbers travel as doubles, as Lua has them: exact, of one size, and read by
// one call of Redis's struct library.

func appendInt(b []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
}

func appendText(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) }

// maxText is the longest id or epoch.
const maxText = 200

var errText = fmt.Errorf("budget: an id or epoch is empty or longer than %d bytes", maxText)

// reader reads a script's answer.
type reader struct {
	rest string
	bad  bool
}

var errAnswer = errors.New("redis: a script's answer cannot be read")

func (r *reader) byte() byte {
	if len(r.rest) < 1 {
		r.bad = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) int() int64 { return int64(r.float()) }

func (r *reader) float() float64 {
	if len(r.rest) < 8 {
		r.bad = true
		return 0
	}
	var bits uint64
	for i := 7; i >= 0; i-- {
		bits = bits<<8 | uint64(r.rest[i])
	}
	r.rest = r.rest[8:]
	return math.Float64frombits(bits)
}

func (r *reader) millis() time.Duration { return budget.Millis(r.int()) }

// state reads what describe() in judge.lua told of a counter of l.
func (r *reader) state(l *budget.Limit) (s budget.LineState) {
	s.Outcome = budget.Outcome(r.byte())
	s.Remaining = r.int()
	s.Capacity = r.int()
	s.Open = r.int()
	s.Wait = r.millis()
	s.Reset = r.millis()
	s.Amount, s.Burst = s.Capacity, s.Capacity
	if rate := r.float(); rate > 0 { // exact up to an amount of 2^51
		s.Amount = int64(math.Round(rate * float64(l.Period.Length().Milliseconds())))
	}
	return s
}

func (r *reader) err() error {
	if r.bad {
		return errAnswer
	}
	return nil
}
