package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"llmgw/internal/tokens"
)

// maxAmount is the largest amount that every part of the system counts exactly.
const maxAmount = int64(tokens.MaxCount)

// amount reads 2000000, 2_000_000, 2M or 100k.
func amount(least int64) func(string) (int64, error) {
	return func(s string) (int64, error) {
		number, factor := s, int64(1)
		if rest, ok := strings.CutSuffix(s, "k"); ok {
			number, factor = rest, 1_000
		} else if rest, ok := strings.CutSuffix(s, "M"); ok {
			number, factor = rest, 1_000_000
		}
		n, err := digits(number)
		if errors.Is(err, strconv.ErrRange) || err == nil && n > maxAmount/factor {
			return 0, fmt.Errorf("is more than 2^53-1 (%d)", maxAmount)
		}
		if err != nil {
			return 0, errors.New("is not an amount such as 2000000, 2_000_000, 2M or 100k")
		}
		return n * factor, within(n*factor, least, maxAmount)
	}
}

// atMost is read for numbers that have a bound of their own.
func atMost(most int64, read func(string) (int64, error)) func(string) (int64, error) {
	return func(s string) (int64, error) {
		n, err := read(s)
		if err == nil && n > most {
			err = fmt.Errorf("is more than %d", most)
		}
		return n, err
	}
}

// dollars reads an amount of USD with up to six decimals as micro-dollars.
func dollars(least int64) func(string) (int64, error) {
	return func(s string) (int64, error) {
		const micro = 1_000_000
		units, fraction, decimal := strings.Cut(s, ".")
		if !decimal {
			n, err := amount(0)(s)
			if err == nil && n > maxAmount/micro {
				err = fmt.Errorf("is more than %d dollars", maxAmount/micro)
			}
			if err != nil {
				return 0, err
			}
			return n * micro, atLeastMicro(n*micro, least)
		}
		n, err := digits(units)
		f, err2 := digits((fraction + "000000")[:6])
		if err != nil || err2 != nil || fraction == "" || len(fraction) > 6 || strings.Contains(fraction, "_") {
			return 0, errors.New("is not an amount of dollars with up to six decimals, such as 500 or 0.25")
		}
		if n >= maxAmount/micro {
			return 0, fmt.Errorf("is more than %d dollars", maxAmount/micro)
		}
		return n*micro + f, atLeastMicro(n*micro+f, least)
	}
}

func atLeastMicro(n, least int64) error {
	if n < least {
		return errors.New("is less than a millionth of a dollar")
	}
	return nil
}

// digits reads decimal digits, with single underscores between them.
func digits(s string) (int64, error) {
	for i := range len(s) {
		isDigit := '0' <= s[i] && s[i] <= '9'
		between := s[i] == '_' && i > 0 && i < len(s)-1 && s[i-1] != '_'
		if !isDigit && !between {
			return 0, strconv.ErrSyntax
		}
	}
	return strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
}

func within(n, least, most int64) error {
	if n < least {
		return fmt.Errorf("is less than %d", least)
	}
	if n > most {
		return fmt.Errorf("is more than %d", most)
	}
	return nil
}

// duration reads 250ms, 10s, 5m or 1h30m.
func duration(least, most time.Duration) func(string) (time.Duration, error) {
	return func(s string) (time.Duration, error) {
		t, err := time.ParseDuration(s)
		switch {
		case err != nil || strings.HasPrefix(s, "+"):
			return 0, errors.New("is not a duration such as 250ms, 10s or 5m")
		case t < least:
			return 0, fmt.Errorf("is shorter than %s", least)
		case t > most:
			return 0, fmt.Errorf("is longer than %s", most)
		}
		return t, nil
	}
}

// size reads bytes: 1048576, 512KiB, 32MiB or 1GiB.
func size(least, most int64) func(string) (int64, error) {
	return func(s string) (int64, error) {
		number, shift := s, 0
		for _, unit := range []struct {
			suffix string
			shift  int
		}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}} {
			if rest, ok := strings.CutSuffix(s, unit.suffix); ok {
				number, shift = rest, unit.shift
			}
		}
		n, err := digits(number)
		if err != nil {
			return 0, errors.New("is not a size such as 512KiB, 32MiB or 1GiB")
		}
		if n > most>>shift {
			return 0, fmt.Errorf("is more than %d bytes", most)
		}
		return n << shift, within(n<<shift, least, most)
	}
}
