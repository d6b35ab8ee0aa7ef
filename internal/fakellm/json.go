package fakellm

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
)

var errSyntax = errors.New("the body is not a JSON object")

// members calls visit for each top-level member of the object in b, with the
// value's bytes. It looks into nothing deeper, and passes over long strings at
// the speed of memory.
func members(b []byte, visit func(key string, value []byte)) error {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return errSyntax
	}
	i = space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return trailing(b, i+1)
	}
	for {
		end := skip(b, i)
		if end < 0 || b[i] != '"' {
			return errSyntax
		}
		key := unquote(b[i:end])
		i = space(b, end)
		if i >= len(b) || b[i] != ':' {
			return errSyntax
		}
		i = space(b, i+1)
		end = skip(b, i)
		if end < 0 {
			return errSyntax
		}
		visit(key, b[i:end])
		i = space(b, end)
		switch {
		case i >= len(b):
			return errSyntax
		case b[i] == '}':
			return trailing(b, i+1)
		case b[i] != ',':
			return errSyntax
		}
		i = space(b, i+1)
	}
}

func trailing(b []byte, i int) error {
	if space(b, i) != len(b) {
		return errSyntax
	}
	return nil
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skip returns where the value that starts at i ends, or -1.
func skip(b []byte, i int) int {
	depth := 0
	for start := i; i < len(b); {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			if i < 0 {
				return -1
			}
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return atomEnd(b, start, i)
			}
			i++
		case ',', ' ', '\n', '\t', '\r', ':':
			if depth == 0 {
				return atomEnd(b, start, i)
			}
			i++
			continue
		default:
			i++
			continue
		}
		if depth == 0 {
			return i
		}
	}
	return -1
}

// atomEnd is the end of the number or literal b[start:i], or -1 if it is none.
func atomEnd(b []byte, start, i int) int {
	if !json.Valid(b[start:i]) {
		return -1
	}
	return i
}

// skipString returns what follows the string whose quote is at i, or -1.
func skipString(b []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n + 1
		slashes := 0
		for b[i-2-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
}

// unquote is the text of a JSON string, or "" if b is none.
func unquote(b []byte) string {
	if len(b) < 2 || b[0] != '"' {
		return ""
	}
	if inner := b[1 : len(b)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var s string
	if json.Unmarshal(b, &s) != nil {
		return ""
	}
	return s
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == '"' || s[i] == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil { // a string always marshals
				panic(err)
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendField appends `,"name":n`.
func appendField(b []byte, name string, n int64) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return strconv.AppendInt(b, n, 10)
}
