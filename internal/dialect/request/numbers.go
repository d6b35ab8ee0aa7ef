package request

import (
	"fmt"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/jsonscan"
	"llmgw/internal/tokens"
)

// Least is the smallest number that a member may have.
type Least int64

// The least numbers of members that bound output.
const (
	FromZero Least = 0
	FromOne  Least = 1
)

// Number reads the member called key as an integer from least to 2^53. ok is
// false if it is missing or null.
func (b Body) Number(key string, least Least) (n tokens.Count, ok bool, err error) {
	return b.NumberAs(key, key, least)
}

// NumberAs does what Number does, for a member that clients know as param.
func (b Body) NumberAs(key, param string, least Least) (n tokens.Count, ok bool, err error) {
	at, ok := b.Find(key)
	if !ok {
		return 0, false, nil
	}
	v, flaw := jsonscan.Integer(b.Bytes(at))
	switch {
	case flaw != jsonscan.NoFlaw:
		return 0, false, fault.Invalid(param, fmt.Sprintf("%s must be a whole number from %d to %d, but is %v.", param, least, int64(jsonscan.MaxInteger), flaw))
	case v < int64(least):
		return 0, false, fault.Invalid(param, fmt.Sprintf("%s must be at least %d.", param, least))
	}
	return min(tokens.Count(v), tokens.MaxCount), true, nil
}

// Largest reads several members that bound the same thing: the largest counts.
func (b Body) Largest(least Least, keys ...string) (n tokens.Count, ok bool, err error) {
	for _, key := range keys {
		v, has, err := b.Number(key, least)
		if err != nil {
			return 0, false, err
		}
		if has {
			n, ok = max(n, v), true
		}
	}
	return n, ok, nil
}

// Switch reads the member called key as true or false; absent if it is missing
// or null.
func (b Body) Switch(key string, absent Setting) (Setting, error) {
	at, ok := b.Find(key)
	if !ok {
		return absent, nil
	}
	if b.Kind(at) != jsonscan.Bool {
		return absent, fault.Invalid(key, fmt.Sprintf("%s must be true or false.", key))
	}
	return Setting(b.Data[at.Start] == 't'), nil
}

// Stream reads the member stream; absent if it is missing or null. What is
// neither true nor false is an error: a lax server takes "true" for true, and its
// answer would be another than the one that is expected.
func (b Body) Stream(absent Setting) (bool, error) {
	setting, err := b.Switch("stream", absent)
	return bool(setting), err
}

// Setting is whether something is switched on.
type Setting bool

// The settings.
const (
	On  Setting = true
	Off Setting = false
)

// Length is the number of elements of an array.
func (b Body) Length(at dialect.Span) tokens.Count {
	n := tokens.Count(0)
	for e := jsonscan.ElementsAt(b.Data, at.Start); e.Next(); {
		n++
	}
	return n
}
