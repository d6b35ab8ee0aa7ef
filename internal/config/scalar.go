package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // a time zone means the same on every machine

	"llmgw/internal/tokens"
)

// The functions of this file, of amount.go and of address.go read single
// values. Their errors complete a sentence that begins with the value, and
// never hold it.

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

// LongestName bounds what people call things, in characters.
const LongestName = 128

// CheckName returns what is wrong with s as the name of a team or the id of a
// key in a configuration, or nil.
func CheckName(s string) error {
	if _, err := name(s); err != nil {
		return fmt.Errorf("%q %w", s, err)
	}
	return nil
}

// name is what people call things: it stands in headers, metrics, URLs and
// Redis keys.
func name(s string) (string, error) {
	if s == "" {
		return "", errors.New("is empty")
	}
	if len(s) > LongestName {
		return "", fmt.Errorf("is longer than %d characters", LongestName)
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
			return 0, fmt.Errorf("is not a whole number from %d to %d", least, most)
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
