package dialect

import (
	"strconv"
	"time"
)

// Level is how one limit of a client stands.
type Level struct {
	Unit             string // requests, tokens, input_tokens, output_tokens, usd or concurrency
	Limit, Remaining int64
	Reset            time.Duration // until it is full
	At               time.Time     // when it stood so
}

// WriteLimit writes OpenAI's headers, which clients of most APIs read: those of
// requests and of tokens.
func WriteLimit(v *Values, l Level) {
	switch l.Unit {
	case "requests":
		l.write(v, "X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests")
	case "tokens":
		l.write(v, "X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens")
	}
}

func (l Level) write(v *Values, limit, remaining, reset string) {
	l.Numbers(v, limit, remaining)
	v.Add(reset, RoundUp(l.Reset, time.Millisecond).String())
}

// Numbers writes the limit and what remains of it, at least 0.
func (l Level) Numbers(v *Values, limit, remaining string) {
	v.AddInt(limit, l.Limit)
	v.AddInt(remaining, max(l.Remaining, 0))
}

// RoundUp rounds d up to a multiple of unit.
func RoundUp(d, unit time.Duration) time.Duration { return (d + unit - 1).Truncate(unit) }

// Values are header fields with one value each that are set together. All values
// share one string and one slice, so that a field costs no allocation of its own.
// The zero Values is empty. It is not safe for concurrent use.
type Values struct {
	names []string
	ends  []int // of each value in text
	text  []byte
}

// Reset empties v and keeps its memory.
func (v *Values) Reset() { v.names, v.ends, v.text = v.names[:0], v.ends[:0], v.text[:0] }

// Add adds the field name, which is in canonical form.
func (v *Values) Add(name, value string) { v.end(name, append(v.text, value...)) }

// AddBytes adds the field name with a copy of value.
func (v *Values) AddBytes(name string, value []byte) { v.end(name, append(v.text, value...)) }

// AddInt adds the field name with a number.
func (v *Values) AddInt(name string, n int64) { v.end(name, strconv.AppendInt(v.text, n, 10)) }

func (v *Values) end(name string, text []byte) {
	v.names, v.ends, v.text = append(v.names, name), append(v.ends, len(text)), text
}

// Set sets the fields of v in h.
func (v *Values) Set(h Header) {
	text, lists, start := string(v.text), make([]string, len(v.names)), 0
	for i, name := range v.names {
		lists[i] = text[start:v.ends[i]]
		h[name] = lists[i : i+1 : i+1]
		start = v.ends[i]
	}
}
