package budget

import (
	"crypto/sha256"
	"encoding/hex"
	"math/bits"
	"strings"
	"unique"
)

// maxPlainValue is the longest value that is kept in a key as it is.
const maxPlainValue = 64

var escapeKey = strings.NewReplacer("%", "%25", "|", "%7C")

// CounterID identifies a counter, over reloads: a limit's place, name, unit and
// period, and the value. It is made to be compared and to be a map's key.
type CounterID struct {
	limit unique.Handle[string]
	value string
}

// Counter identifies the counter that the line asks.
func (l *Line) Counter() CounterID { return CounterOf(l.Limit, l.Value) }

// String is the counter's key, the same in every store.
func (c CounterID) String() string { return c.limit.Value() + c.value }

// CounterOf identifies the counter of l for value.
func CounterOf(l *Limit, value string) CounterID { return CounterID{l.parts().key, KeyValue(value)} }

// KeyPrefix names the counters of l, over reloads: place, name, unit and
// period. A counter's key is the prefix and KeyValue of its value.
func KeyPrefix(l *Limit) string { return l.parts().key.Value() }

func keyPrefix(l *Limit) string {
	return escapeKey.Replace(l.Place) + "|" + escapeKey.Replace(l.Name) + "|" + string(l.Unit) + "|" + string(l.Period) + "|"
}

// KeyValue is value, or its hash if it is long.
func KeyValue(value string) string {
	// A short value must not look like the hash of a long one.
	if len(value) <= maxPlainValue && !strings.HasPrefix(value, "#") {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return "#" + hex.EncodeToString(sum[:16])
}

// CandidateOf is the limit that watches l's Candidate amount: l in shadow with
// that amount, burst and debt in proportion, and counters of its own. It is nil
// if l has no candidate.
func CandidateOf(l *Limit) *Limit { return l.parts().candidate }

func candidate(l *Limit) *Limit {
	if l.Candidate <= 0 {
		return nil
	}
	c := *l
	c.Name += "|candidate" // no configured name has the separator
	c.Amount = l.Candidate
	c.Burst = max(1, scale(l.Burst, l.Candidate, l.Amount))
	c.MaxDebt = scale(l.MaxDebt, l.Candidate, l.Amount)
	c.Candidate = 0
	c.Mode = Shadow
	return c.Compile()
}

// scale is n·num/den, at most MaxExact. All are at most MaxExact, den is at least 1.
func scale(n, num, den int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(num))
	if hi >= uint64(den) {
		return MaxExact
	}
	q, _ := bits.Div64(hi, lo, uint64(den))
	return int64(min(q, MaxExact))
}

// Tagged returns id with a tag behind it, which a store returns when it reclaims
// the reservation: what its gateway would have booked it as. An id without a tag
// must not hold a |. Stores bound the length of the whole.
func Tagged(id, tag string) string {
	if tag == "" {
		return id
	}
	return id + "|" + tag
}

// Suffixed returns id with a suffix that tells another attempt from it, and with the
// same tag.
func Suffixed(id, suffix string) string {
	id, tag, _ := strings.Cut(id, "|")
	return Tagged(id+suffix, tag)
}

// Tag returns the tag of id, or nothing.
func Tag(id string) string {
	_, tag, _ := strings.Cut(id, "|")
	return tag
}
