package budget

import (
	"crypto/sha256"
	"encoding/hex"
	"math/bits"
	"strings"
)

// maxPlainValue is the longest value that is kept in a key as it is.
const maxPlainValue = 64

var escapeKey = strings.NewReplacer("%", "%25", "|", "%7C")

// KeyPrefix names the counters of l, over reloads: place, name, unit and
// period. A counter's key is the prefix and KeyValue of its value.
func KeyPrefix(l *Limit) string {
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

// CounterKey names the counter of l for value. Different counters have different keys.
func CounterKey(l *Limit, value string) string { return KeyPrefix(l) + KeyValue(value) }

// CandidateOf is the limit that watches l's Candidate amount: l in shadow with
// that amount, burst and debt in proportion, and counters of its own. It is nil
// if l has no candidate.
func CandidateOf(l *Limit) *Limit {
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
	return &c
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
