// Package jsonscan finds things in JSON text without building it up: it
// validates, walks the members of an object and the elements of an array, and
// reads strings and integers exactly. It is not a decoder: it fills no Go
// values, and it changes nothing.
//
// This file has kinds, places and errors; skip.go passes over values and
// validates them; walk.go walks objects and arrays, with a look at the keys
// within their values if wanted; string.go and number.go read scalars; push.go,
// with pushtext.go, reads a text that arrives in pieces.
//
// Keys are exact: case matters, escapes are decoded. Invalid UTF-8 inside
// strings is accepted and reads as U+FFFD, as encoding/json does. Everything
// is linear in the size of the text and nothing panics on bad input.
package jsonscan

import "fmt"

// MaxDepth is how deep arrays and objects may nest.
const MaxDepth = 1024

// Kind is the kind of a JSON value.
type Kind uint8

// The kinds. The zero Kind is no value.
const (
	None Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// Span is a half-open range of byte offsets. The zero Span is empty.
type Span struct{ Start, End int }

// Empty reports whether s covers nothing.
func (s Span) Empty() bool { return s.End <= s.Start }

// Of returns the bytes of data that s covers.
func (s Span) Of(data []byte) []byte { return data[s.Start:s.End] }

// Error says where a text stops being JSON, and why.
type Error struct {
	Offset int // the byte at fault; the text's length if it ends too early
	What   string
}

// Error is the reason with its place.
func (e *Error) Error() string { return fmt.Sprintf("offset %d: %s", e.Offset, e.What) }

// Document validates data as one JSON text, with white space around it and a
// byte order mark before it, and returns where its value stands.
func Document(data []byte) (Span, error) {
	start := Start(data)
	end, err := Skip(data, start)
	if err != nil {
		return Span{}, err
	}
	if err := Rest(data, end); err != nil {
		return Span{}, err
	}
	return Span{start, end}, nil
}

// Start returns the offset of the first value: behind a byte order mark and
// white space.
func Start(data []byte) int {
	at := 0
	if len(data) >= 3 && data[0] == 0xEF && data[1] == 0xBB && data[2] == 0xBF {
		at = 3
	}
	return space(data, at)
}

// Rest returns an error unless only white space follows offset at.
func Rest(data []byte, at int) error {
	if at = space(data, at); at < len(data) {
		return &Error{at, "something follows the end of the document"}
	}
	return nil
}

// KindAt tells the kind of the value that starts at offset at, by its first
// byte alone; None if no value starts so.
func KindAt(data []byte, at int) Kind {
	if at < 0 || at >= len(data) {
		return None
	}
	return kindOf(data[at])
}

// KindOf tells the kind of a value by its first byte.
func (s Span) KindOf(data []byte) Kind { return KindAt(data, s.Start) }

func kindOf(c byte) Kind {
	switch c {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return Number
	}
	return None
}
