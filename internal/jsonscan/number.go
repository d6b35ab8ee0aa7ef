package jsonscan

// MaxInteger is the largest integer that every JSON reader holds exactly.
const MaxInteger = 1 << 53

// Flaw is why a value is no integer from 0 to MaxInteger.
type Flaw uint8

// The flaws. A value with several has the first of this list.
const (
	NoFlaw     Flaw = iota
	NotNumber       // not a JSON number at all
	Negative        // below zero
	Fractional      // not a whole number
	TooLarge        // above MaxInteger
)

// String says what is wrong, to follow "must be a whole number, but is".
func (f Flaw) String() string {
	switch f {
	case NotNumber:
		return "not a number"
	case Negative:
		return "negative"
	case Fractional:
		return "fractional"
	case TooLarge:
		return "too large"
	}
	return "an integer"
}

// Integer reads a JSON value as an integer from 0 to MaxInteger, exactly: 1e3,
// 1000.0 and -0 are integers. With a Flaw the integer is 0, but MaxInteger with
// TooLarge.
func Integer(value []byte) (int64, Flaw) {
	if len(value) == 0 || kindOf(value[0]) != Number {
		return 0, NotNumber
	}
	if end, err := skipNumber(value, 0); err != nil || end != len(value) {
		return 0, NotNumber
	}
	negative := value[0] == '-'
	if negative {
		value = value[1:]
	}
	mantissa, exponent := splitExponent(value)
	first, last, whole := extent(mantissa)
	switch {
	case first < 0:
		return 0, NoFlaw // zero, whatever its exponent
	case negative:
		return 0, Negative
	case whole-1-last+exponent < 0:
		return 0, Fractional
	}
	return scale(mantissa, first, last, whole-1-last+exponent)
}

// extent returns the indices of the first and the last digit that is not zero,
// the point not counted, and how many digits stand before the point; first is
// -1 if all are zero.
func extent(mantissa []byte) (first, last, whole int) {
	first, whole = -1, -1
	i := 0
	for _, c := range mantissa {
		if c == '.' {
			whole = i
			continue
		}
		if c != '0' {
			last = i
			if first < 0 {
				first = i
			}
		}
		i++
	}
	if whole < 0 {
		whole = i
	}
	return first, last, whole
}

// scale is the digits from first to last, followed by zeros more zeros.
func scale(mantissa []byte, first, last, zeros int) (int64, Flaw) {
	var n int64
	i := -1
	for _, c := range mantissa {
		if c == '.' {
			continue
		}
		if i++; i < first || i > last {
			continue
		}
		if n = n*10 + int64(c-'0'); n > MaxInteger {
			return MaxInteger, TooLarge
		}
	}
	for ; zeros > 0; zeros-- {
		if n *= 10; n > MaxInteger {
			return MaxInteger, TooLarge
		}
	}
	return n, NoFlaw
}

// splitExponent cuts a number at its exponent, which is held within what no
// mantissa can make up for.
func splitExponent(value []byte) (mantissa []byte, exponent int) {
	for i, c := range value {
		if c != 'e' && c != 'E' {
			continue
		}
		negative := value[i+1] == '-'
		for _, d := range value[i+1:] {
			if '0' <= d && d <= '9' && exponent < maxExponent {
				exponent = exponent*10 + int(d-'0')
			}
		}
		if negative {
			exponent = -exponent
		}
		return value[:i], exponent
	}
	return value, 0
}

const maxExponent = 1 << 40
