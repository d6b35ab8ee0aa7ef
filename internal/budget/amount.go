package budget

import (
	"fmt"
	"strconv"
)

// dollar is one dollar in units of USD.
const dollar = 1_000_000

// Text writes n, which is 0 or more, for people: digits in groups of three, or
// dollars with cents, with all six decimals where cents would hide something.
func (u Unit) Text(n int64) string {
	if u != USD {
		return grouped(n)
	}
	fraction := fmt.Sprintf(".%06d", n%dollar)
	if n%(dollar/100) == 0 {
		fraction = fraction[:3]
	}
	return "$" + grouped(n/dollar) + fraction
}

func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Number returns n as people count it: dollars instead of millionths.
func (u Unit) Number(n int64) float64 {
	if u == USD {
		return float64(n) / dollar
	}
	return float64(n)
}
