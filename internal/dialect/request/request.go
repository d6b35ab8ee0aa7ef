// Package request holds what all dialects do with a request: it reads the JSON
// body that a client sent, as far as a gateway must know it, and makes the
// outbound body and headers from it. It knows no API; dialects say which
// members mean what.
//
// This file reads bodies; user.go reads whom they name; numbers.go reads bounds and switches; splice.go
// changes a body in places; header.go picks what is passed on.
package request

import (
	"errors"
	"fmt"
	"mime"
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/jsonscan"
)

// maxModel is the longest name of a model, and maxMembers the most members of
// an object that is read: no API has a hundred, and each costs memory.
const (
	maxModel   = 256
	maxMembers = 1000
)

var errMembers = fmt.Errorf("it has more than %d members", maxMembers)

// Body is a JSON body as a client sent it, validated to its end.
type Body struct {
	Data    []byte
	Object  int // where its object starts
	Members []dialect.Member

	misnamed error // of a member that is nearly a known name, also within values
}

// Read reads a body that must be one JSON object without duplicate keys. Its
// errors are *fault.Error.
func Read(r dialect.Request) (Body, error) {
	if err := checkType(r.Header); err != nil {
		return Body{}, err
	}
	b := Body{Data: r.Body, Object: jsonscan.Start(r.Body)}
	if len(r.Body) == b.Object {
		return Body{}, fault.Invalid("", "The request has no body: it must be a JSON object.")
	}
	if kind := jsonscan.KindAt(r.Body, b.Object); kind != jsonscan.Object && kind != jsonscan.None {
		return Body{}, fault.Invalid("", "The request's body must be a JSON object.")
	}
	end, err := b.read()
	if err == nil {
		err = jsonscan.Rest(r.Body, end)
	}
	if errors.Is(err, errMembers) {
		return Body{}, fault.Invalid("", fmt.Sprintf("The request's body is not what any API takes: %v.", err))
	}
	if err != nil {
		return Body{}, &fault.Error{Code: fault.InvalidRequest, NoRetry: true, Message: fmt.Sprintf("The request's body is not valid JSON: %v.", err)}
	}
	return b, b.unique()
}

// read takes the members of b's object and returns where it ends.
func (b *Body) read() (end int, err error) {
	b.Members = make([]dialect.Member, 0, 8)
	var n names
	m := jsonscan.LookAt(b.Data, b.Object, n.look)
	for m.Next() {
		if len(b.Members) == maxMembers {
			return 0, errMembers
		}
		v := m.Value()
		b.Members = append(b.Members, dialect.Member{Key: name(m.Key()), Value: v})
	}
	b.misnamed = n.err
	return m.End(), m.Err()
}

// name is a key as a string; the usual ones cost nothing.
func name(key []byte) string {
	for _, usual := range [...]string{
		"model", "messages", "stream", "max_tokens", "max_completion_tokens", "temperature", "stream_options", "include_usage", "tools", "input", "user", "system",
		"tool_choice", "response_format", "top_p", "n", "stop", "metadata", "store", "reasoning_effort", "max_output_tokens", "instructions", "prompt", "encoding_format",
	} {
		if string(key) == usual {
			return usual
		}
	}
	return string(key)
}

// checkType refuses a body that says it is something else than JSON.
func checkType(h dialect.Header) error {
	sent := h.Get("Content-Type")
	if sent == "" || sent == "application/json" {
		return nil
	}
	kind, _, err := mime.ParseMediaType(sent)
	if err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json")) {
		return nil
	}
	return fault.Invalid("", fmt.Sprintf("The request's Content-Type is %.80q: it must be application/json.", sent))
}

// fewMembers is how many members are compared with each other; more are
// compared by a map.
const fewMembers = 16

// unique refuses members that two readers could take for different ones: two of
// one name, or one that is nearly a known name.
func (b Body) unique() error {
	if b.misnamed != nil {
		return b.misnamed
	}
	if len(b.Members) > fewMembers {
		seen := make(map[string]bool, len(b.Members))
		for _, m := range b.Members {
			if seen[m.Key] {
				return duplicate(m.Key)
			}
			seen[m.Key] = true
		}
		return nil
	}
	for i, m := range b.Members {
		for _, earlier := range b.Members[:i] {
			if m.Key == earlier.Key {
				return duplicate(m.Key)
			}
		}
	}
	return nil
}

func duplicate(key string) error {
	return fault.Invalid(cut(key), fmt.Sprintf("The request's body has two members called %.64q.", key))
}

func cut(s string) string { return s[:min(len(s), 64)] }

// Find returns the value of the member called key. A value of null counts as
// none: ok is false.
func (b Body) Find(key string) (value dialect.Span, ok bool) {
	for _, m := range b.Members {
		if m.Key == key {
			return m.Value, b.Kind(m.Value) != jsonscan.Null
		}
	}
	return dialect.Span{}, false
}

// Bytes returns the text of a value.
func (b Body) Bytes(s dialect.Span) []byte { return b.Data[s.Start:s.End] }

// Kind returns the kind of a value.
func (b Body) Kind(s dialect.Span) jsonscan.Kind { return jsonscan.KindAt(b.Data, s.Start) }

// Within returns the object value of the member called key as a Body of its
// own; ok is false if there is none. Duplicate keys in it are an error.
func (b Body) Within(key string) (inner Body, ok bool, err error) {
	at, ok := b.Find(key)
	if !ok {
		return Body{}, false, nil
	}
	if b.Kind(at) != jsonscan.Object {
		return Body{}, false, fault.Invalid(key, fmt.Sprintf("%s must be an object.", key))
	}
	inner = Body{Data: b.Data, Object: at.Start}
	if _, err := inner.read(); errors.Is(err, errMembers) {
		return Body{}, false, fault.Invalid(key, fmt.Sprintf("%s is not what any API takes: %v.", key, err))
	} else if err != nil {
		return Body{}, false, fault.Invalid(key, fmt.Sprintf("%s must be an object.", key)) // b was read already
	}
	return inner, true, inner.unique()
}

// Text returns the string value of the member called key; ok is false if it is
// no string.
func (b Body) Text(key string) (s string, ok bool) {
	at, ok := b.Find(key)
	if !ok || b.Kind(at) != jsonscan.String {
		return "", false
	}
	return string(jsonscan.Text(b.Bytes(at), nil)), true
}

// Model reads the required name of the model.
func (b Body) Model() (name string, at dialect.Span, err error) {
	at, ok := b.Find("model")
	if !ok {
		return "", at, fault.Invalid("model", "The request names no model.")
	}
	if b.Kind(at) != jsonscan.String {
		return "", at, fault.Invalid("model", "model must be a string.")
	}
	name, _ = b.Text("model")
	return name, at, CheckModel(name)
}

// CheckModel refuses names that no model has.
func CheckModel(name string) error {
	switch {
	case name == "":
		return fault.Invalid("model", "model must not be empty.")
	case len(name) > maxModel:
		return fault.Invalid("model", fmt.Sprintf("model must have at most %d bytes.", maxModel))
	case strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7F }):
		return fault.Invalid("model", "model must not hold control characters.")
	case climbs(name):
		return fault.Invalid("model", "model must not hold a path's . or .. between slashes.")
	}
	return nil
}

// climbs tells whether a name, as a part of a path, would lead elsewhere: some
// APIs have the model there, and servers resolve its dots, escaped or not.
func climbs(name string) bool {
	for part := range strings.FieldsFuncSeq(name, func(c rune) bool { return c == '/' || c == '\\' }) {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}
