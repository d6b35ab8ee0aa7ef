package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a time zone means the same on every machine

	"llmgw/internal/tokens"
)

// The functions of this file read single values. Their errors complete a
// sentence that begins with the value, and never hold it.

// anyText is every text, the empty one included.
func anyText(s string) (string, error) { return s, nil }

// word is what can be sent as one HTTP header value: visible ASCII, not empty.
func word(s string) (string, error) {
	if s == "" {
		return "", errors.New("is empty")
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return "", errors.New("has a space, a control character or one beyond ASCII")
		}
	}
	return s, nil
}

// wordOrNothing is a word, or empty.
func wordOrNothing(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	return word(s)
}

// name is what people call things: it stands in headers, metrics, URLs and
// Redis keys.
func name(s string) (string, error) {
	const longest = 64
	if s == "" {
		return "", errors.New("is empty")
	}
	if len(s) > longest {
		return "", fmt.Errorf("is longer than %d characters", longest)
	}
	for _, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune("._:@+-", rune(c)) {
			return "", errors.New("is no name: letters, digits and . _ : @ + - make one")
		}
	}
	return s, nil
}

// modelName is a provider's or a client's name of a model.
func modelName(s string) (string, error) {
	const longest = 256
	if len(s) > longest {
		return "", fmt.Errorf("is longer than %d characters", longest)
	}
	return word(s)
}

func boolean(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New("is neither true nor false")
}

// oneOf reads one of a few words.
func oneOf[T ~string](words ...T) func(string) (T, error) {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	return func(s string) (T, error) {
		for _, w := range words {
			if s == string(w) {
				return w, nil
			}
		}
		return "", fmt.Errorf("is not %s%s", orList(names), didYouMean(s, names))
	}
}

// whole reads a plain whole number.
func whole(least, most int64) func(string) (int64, error) {
	return func(s string) (int64, error) {
		n, err := digits(s)
		if err != nil {
			return 0, errors.New("is not a whole number")
		}
		return n, within(n, least, most)
	}
}

// small is whole for what is an int.
func small(least, most int) func(string) (int, error) {
	read := whole(int64(least), int64(most))
	return func(s string) (int, error) {
		n, err := read(s)
		return int(n), err
	}
}

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

// listenAddress reads host:port, of which the host may be empty.
func listenAddress(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", errors.New("is not an address such as 127.0.0.1:8080 or :8080")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", errors.New("has no port from 0 to 65535")
	}
	if strings.ContainsAny(host, "/ \t@") {
		return "", errors.New("is not an address such as 127.0.0.1:8080 or :8080")
	}
	return s, nil
}

// hostPort reads the address of a server.
func hostPort(s string) (string, error) {
	if _, err := listenAddress(s); err != nil || strings.HasPrefix(s, ":") || strings.HasSuffix(s, ":0") {
		return "", errors.New("is not the address of a server, such as 127.0.0.1:6379")
	}
	return s, nil
}

// prefix reads a network (10.0.0.0/8) or a single address.
func prefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		ip, err := netip.ParseAddr(s)
		if err != nil || ip.Zone() != "" {
			return netip.Prefix{}, errors.New("is not a network such as 10.0.0.0/8 or an address")
		}
		p = netip.PrefixFrom(ip, ip.BitLen())
	}
	if ip := p.Addr(); ip.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(ip.Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// webAddress reads an http or https URL, without what a base cannot have, and
// cuts a slash at its end.
func webAddress(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("is not a URL that begins with http:// or https://")
	case u.User != nil:
		return "", errors.New("has a user name in it; credentials go to their own keys")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return "", errors.New("has a query or a fragment")
	}
	return strings.TrimRight(s, "/"), nil
}

// webAddressOrNothing is a web address, or empty.
func webAddressOrNothing(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	return webAddress(s)
}

// decimal reads a weight or a price.
func decimal(s string) (tokens.Rate, error) {
	r, err := tokens.ParseRate(s)
	if err != nil { // its text holds the value
		return 0, errors.New("is not a decimal from 0 to 1000000 with at most six decimals")
	}
	return r, nil
}

// sha256Hex reads the hash of a key.
func sha256Hex(s string) ([32]byte, error) {
	var hash [32]byte
	if len(s) != 2*len(hash) {
		return hash, fmt.Errorf("is not a SHA-256 hash: 64 hexadecimal digits (this has %d characters)", len(s))
	}
	if _, err := hex.Decode(hash[:], []byte(s)); err != nil {
		return hash, errors.New("is not a SHA-256 hash: 64 hexadecimal digits")
	}
	return hash, nil
}

// zone reads a time zone of the IANA database.
func zone(s string) (*time.Location, error) {
	if s == "" || s == "Local" {
		return nil, errors.New("is not a time zone such as UTC or Europe/Athens")
	}
	l, err := time.LoadLocation(s)
	if err != nil {
		return nil, errors.New("is not a time zone such as UTC or Europe/Athens")
	}
	return l, nil
}
