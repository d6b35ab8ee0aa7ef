package request

import (
	"strconv"
	"strings"
	"time"

	"llmgw/internal/fault"
)

// microDollars is what one dollar is counted as.
const microDollars = 1_000_000

// AppendLimit appends the limit that refused as a JSON object, as all dialects
// show it. usd amounts are in dollars.
func AppendLimit(b []byte, e *fault.Error) []byte {
	l := e.Limit
	b = append(b, `{"scope":`...)
	b = AppendString(b, l.Scope)
	b = append(b, `,"name":`...)
	b = AppendString(b, l.Name)
	b = append(b, `,"unit":`...)
	b = AppendString(b, l.Unit)
	b = append(b, `,"amount":`...)
	b = appendAmount(b, l.Unit, l.Amount)
	b = append(b, `,"per":`...)
	if l.Per == "" {
		b = append(b, "null"...)
	} else {
		b = AppendString(b, l.Per)
	}
	b = append(b, `,"remaining":`...)
	if l.Unknown {
		b = append(b, "null"...)
	} else {
		b = appendAmount(b, l.Unit, l.Remaining)
	}
	b = append(b, `,"requested":`...)
	b = appendAmount(b, l.Unit, l.Requested)
	b = append(b, `,"retry_after_ms":`...)
	if e.Wait <= 0 {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, int64((e.Wait+time.Millisecond-1)/time.Millisecond), 10)
	}
	return append(b, '}')
}

func appendAmount(b []byte, unit string, n int64) []byte {
	if unit != "usd" {
		return strconv.AppendInt(b, n, 10)
	}
	if n < 0 {
		b, n = append(b, '-'), -n
	}
	b = strconv.AppendInt(b, n/microDollars, 10)
	if frac := n % microDollars; frac != 0 {
		digits := strconv.FormatInt(microDollars+frac, 10)[1:]
		b = append(append(b, '.'), strings.TrimRight(digits, "0")...)
	}
	return b
}
