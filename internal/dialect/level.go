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
func WriteLimit(h Header, l Level) {
	switch l.Unit {
	case "requests":
		l.write(h, "X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests")
	case "tokens":
		l.write(h, "X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens")
	}
}

func (l Level) write(h Header, limit, remaining, reset string) {
	l.Numbers(h, limit, remaining)
	h[reset] = []string{RoundUp(l.Reset, time.Millisecond).String()}
}

// Numbers writes the limit and what remains of it, at least 0.
func (l Level) Numbers(h Header, limit, remaining string) {
	h[limit] = []string{strconv.FormatInt(l.Limit, 10)}
	h[remaining] = []string{strconv.FormatInt(max(l.Remaining, 0), 10)}
}

// RoundUp rounds d up to a multiple of unit.
func RoundUp(d, unit time.Duration) time.Duration { return (d + unit - 1).Truncate(unit) }
