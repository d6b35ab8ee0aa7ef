package proxy

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/registry"
)

// units are those that clients are told of, in the order of the headers.
var units = [...]budget.Unit{budget.Requests, budget.Tokens, budget.InputTokens, budget.OutputTokens, budget.USD, budget.Concurrency}

// tightest is for each of units the enforced line that has the least left, or -1.
type tightest [len(units)]int

// tightestOf picks the line of each unit whose Remaining is smallest.
func tightestOf(lines []budget.Line, states []budget.LineState) tightest {
	var t tightest
	for u := range units {
		t[u] = -1
		for i, l := range lines {
			if l.Limit.Unit != units[u] || l.Limit.Mode == budget.Shadow || i >= len(states) {
				continue
			}
			if t[u] < 0 || states[i].Remaining < states[t[u]].Remaining {
				t[u] = i
			}
		}
	}
	return t
}

// writeLimits writes how the client's tightest limits stand: in the headers of
// its API, and in those of the IETF draft (draft-ietf-httpapi-ratelimit-headers-11).
func writeLimits(h http.Header, api *dialect.Profile, lines []budget.Line, v budget.Verdict) {
	if len(lines) == 0 || len(v.Lines) == 0 {
		return
	}
	write := api.WriteLimit
	if write == nil {
		write = dialect.WriteLimit
	}
	t := tightestOf(lines, v.Lines)
	fields := limitFields.Get().(*dialect.Values)
	defer limitFields.Put(fields)
	fields.Reset()
	for u, i := range t {
		if i >= 0 {
			s := v.Lines[i]
			write(fields, dialect.Level{
				Unit: string(units[u]), Limit: lines[i].Limit.InForce(s).Amount, Remaining: s.Remaining, Reset: s.Reset, At: v.At,
			})
		}
	}
	draftLimits(fields, lines, v, t)
	fields.Set(dialect.Header(h))
}

// limitFields are kept from one answer to the next.
var limitFields = sync.Pool{New: func() any { return new(dialect.Values) }}

// draftLimits writes RateLimit-Policy and RateLimit: a list with one item for
// each unit. The draft knows no unit of tokens; ours have a vendor's prefix.
func draftLimits(fields *dialect.Values, lines []budget.Line, v budget.Verdict, t tightest) {
	var space [2][160]byte
	policy, state := space[0][:0], space[1][:0]
	for _, i := range t {
		if i < 0 {
			continue
		}
		l, s := lines[i].Limit.InForce(v.Lines[i]), v.Lines[i]
		if len(policy) > 0 {
			policy, state = append(policy, ", "...), append(state, ", "...)
		}
		policy = strconv.AppendQuote(policy, l.Name)
		policy = strconv.AppendInt(append(policy, ";q="...), whole(l, l.Amount), 10)
		if w := window(l, v.At); w > 0 {
			policy = strconv.AppendInt(append(policy, ";w="...), int64(w/time.Second), 10)
		}
		policy = strconv.AppendQuote(append(policy, ";qu="...), quotaUnit(l))
		state = strconv.AppendQuote(state, l.Name)
		state = strconv.AppendInt(append(state, ";r="...), whole(l, max(s.Remaining, 0)), 10)
		state = strconv.AppendInt(append(state, ";t="...), int64(dialect.RoundUp(resetOf(v, i), time.Second)/time.Second), 10)
	}
	if len(policy) == 0 {
		return
	}
	fields.AddBytes("Ratelimit-Policy", policy)
	fields.AddBytes("Ratelimit", state)
}

// resetOf is the draft's effective window: the wait of the line that refuses,
// else the time to full.
func resetOf(v budget.Verdict, i int) time.Duration {
	if v.Outcome != budget.Granted && i == v.Binding && v.Wait > 0 {
		return v.Wait
	}
	return v.Lines[i].Reset
}

func quotaUnit(l *budget.Limit) string {
	switch l.Unit {
	case budget.Requests:
		return "requests"
	case budget.Concurrency:
		return "concurrent-requests"
	case budget.Tokens:
		return "llmgw-tokens"
	case budget.InputTokens:
		return "llmgw-input-tokens"
	case budget.OutputTokens:
		return "llmgw-output-tokens"
	default:
		if l.Amount < leastWhole {
			return "llmgw-microusd"
		}
		return "llmgw-usd"
	}
}

// leastWhole is the least budget, in micro-dollars, that the draft's fields show in
// dollars: of a smaller one too little would be seen.
const leastWhole = 100 * 1_000_000

// whole is n in whole units of l: dollars rounded down, of a small budget
// micro-dollars.
func whole(l *budget.Limit, n int64) int64 {
	if l.Unit == budget.USD && l.Amount >= leastWhole {
		return n / 1_000_000
	}
	return n
}

// window is the length of the limit's period; of a calendar period that which
// at falls into, approximated where only its end is known.
func window(l *budget.Limit, at time.Time) time.Duration {
	if d := l.Period.Length(); d > 0 {
		return d
	}
	if !l.Period.Calendar() {
		return 0
	}
	start, end := budget.PeriodAt(l, at)
	return end.Sub(start)
}

// copyAnswerHeader copies the provider's headers that concern the client: all
// but hop-by-hop ones, those that only the gateway may set, those that may hold a
// credential of the shared account, and the account's limits, which are shown
// under another name if expose is set.
func copyAnswerHeader(to, from http.Header, expose Exposure) {
	drop := connectionTokens(from)
	for name, values := range from {
		switch {
		case hopByHop[name] || drop[name] || strings.HasPrefix(name, ownPrefix) || dialect.Secretive(name):
		case accountLimit(name):
			if expose == ExposeLimits {
				to["X-Upstream-"+name] = values
			}
		default:
			to[name] = values
		}
	}
}

// ownPrefix begins the headers that say something about the gateway.
const ownPrefix = "X-Llmgw-"

// Exposure says whether the provider's limits are shown to clients.
type Exposure int

// The exposures.
const (
	HideLimits Exposure = iota
	ExposeLimits
)

// hopByHop are the headers that end with one connection (RFC 9110, 7.6.1).
var hopByHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true,
	"Proxy-Authorization": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

func connectionTokens(h http.Header) map[string]bool {
	values := h["Connection"]
	if len(values) == 0 {
		return nil
	}
	drop := map[string]bool{}
	for _, v := range values {
		for _, token := range strings.Split(v, ",") {
			drop[http.CanonicalHeaderKey(strings.TrimSpace(token))] = true
		}
	}
	return drop
}

// accountStarts are the starts of headers about the account that all clients
// share.
var accountStarts = registry.Signals().Account

func accountLimit(name string) bool {
	return slices.ContainsFunc(accountStarts, func(start string) bool { return strings.HasPrefix(name, start) })
}
