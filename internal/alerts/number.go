package alerts

import (
	"strconv"
	"strings"

	"llmgw/internal/budget"
)

// Number is an amount as JSON has it: whole, or dollars with up to six decimals.
type Number string

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if n == "" {
		return []byte("0"), nil
	}
	return []byte(n), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(text []byte) error {
	*n = Number(text)
	return nil
}

// numberOf is n, which is in units of u, as people count it.
func numberOf(u budget.Unit, n int64) Number {
	if u != budget.USD {
		return Number(strconv.FormatInt(n, 10))
	}
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	whole, rest := n/1_000_000, n%1_000_000
	text := sign + strconv.FormatInt(whole, 10)
	if rest > 0 {
		text += "." + strings.TrimRight(strconv.FormatInt(1_000_000+rest, 10)[1:], "0")
	}
	return Number(text)
}
