package estimate

import (
	"bytes"

	"llmgw/internal/jsonscan"
)

const (
	// parallelLeast and parallelMost are the sizes between which a text may be
	// counted on two cores. Larger ones leave the other core to others.
	parallelLeast = 128 << 10
	parallelMost  = 1 << 20
	// keptBuffer is the most of a buffer that outlives one request.
	keptBuffer = 1 << 20
)

// text counts what a JSON string says.
func (r *reader) text(token []byte) { r.t.text += r.count(token) }

// count returns the tokens of what a JSON string says.
func (r *reader) count(token []byte) int {
	if len(token) <= 2 {
		return 0
	}
	if len(token) > r.exactLeft {
		return r.sample(token[1:len(token)-1], (*reader).escapedWindow)
	}
	text := jsonscan.Text(token, r.buf)
	if cap(text) > cap(r.buf) && &text[:1][0] != &token[1:2][0] {
		r.buf = text[:0]
	}
	if r.escaping {
		r.out = appendASCII(r.out[:0], text)
		return r.plain(r.out)
	}
	return r.plain(text)
}

// plain returns the tokens of a decoded text.
func (r *reader) plain(text []byte) int {
	if !r.mayCount(len(text)) {
		return r.sample(text, (*reader).window)
	}
	if !r.model.exact {
		r.t.classify(text)
	}
	if len(text) < parallelLeast || len(text) > parallelMost {
		return r.encoding.Count(text)
	}
	select {
	case r.e.helpers <- struct{}{}:
		defer func() { <-r.e.helpers }()
		return r.encoding.CountParallel(text, 2)
	default:
		return r.encoding.Count(text)
	}
}

// json counts a JSON value as models see it: its text without insignificant
// white space. Depth costs nothing.
func (r *reader) json(raw []byte) int {
	if len(raw) > r.exactLeft {
		return r.sample(raw, (*reader).window)
	}
	r.out = compact(r.out[:0], raw)
	return r.plain(r.out)
}

// compact appends a JSON text without the white space between its tokens.
func compact(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		switch c := raw[i]; c {
		case ' ', '\n', '\r', '\t':
			i++
		case '"':
			end := stringEnd(raw, i)
			dst = append(dst, raw[i:end]...)
			i = end
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

// stringEnd returns the offset behind the JSON string that starts at raw[at];
// the length of raw if it does not end. It validates nothing, and is as fast
// as finding a quote.
func stringEnd(raw []byte, at int) int {
	for i := at + 1; ; {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			return len(raw)
		}
		quote := i + n
		slashes := quote
		for slashes > i && raw[slashes-1] == '\\' {
			slashes--
		}
		i = quote + 1
		if (quote-slashes)%2 == 0 {
			return i
		}
	}
}

// valueEnd returns the offset behind the JSON value that starts at raw[at], as
// stringEnd does.
func valueEnd(raw []byte, at int) int {
	depth := 0
	for i := at; i < len(raw); {
		switch raw[i] {
		case '"':
			i = stringEnd(raw, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return i + max(0, depth+1)
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return len(raw)
}

// each calls f with the raw text of each element of the array raw.
func (r *reader) each(raw []byte, f func(*reader, []byte)) { r.elements(raw, 1, f) }

// elements is each for the elements from offset i on, and returns where the
// last of them ends; i if there is none. It is for arrays that are known to be
// valid JSON; of others it makes something up.
func (r *reader) elements(raw []byte, i int, f func(*reader, []byte)) (end int) {
	end = i
	for i < len(raw) {
		switch raw[i] {
		case ' ', '\n', '\r', '\t', ',':
			i++
			continue
		case ']':
			return end
		}
		end = max(valueEnd(raw, i), i+1)
		f(r, raw[i:end])
		i = end
	}
	return end
}

// isDataURI tells whether a string's text is data in base64 that says what it is.
func isDataURI(inner []byte) bool {
	return bytes.HasPrefix(inner, []byte("data:")) && bytes.Contains(inner[:min(len(inner), 128)], []byte(";base64,"))
}

// encodedBytes is from which length on text may be data, and how much of it is
// looked at.
const encodedBytes = 256

// looksEncoded tells whether a string's text is long, and its beginning all of
// the alphabet of base64.
func looksEncoded(inner []byte) bool {
	if len(inner) < encodedBytes {
		return false
	}
	for _, c := range inner[:encodedBytes] {
		if !isLetter(c) && c-'0' > 9 && c != '+' && c != '/' && c != '-' && c != '_' && c != '\\' && c != '=' {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return (c|0x20)-'a' <= 'z'-'a' }

// encoded tells whether a string's text looks like data, not like language:
// looksEncoded, and mixed.
func encoded(inner []byte) bool {
	if !looksEncoded(inner) {
		return false
	}
	var upper, lower, digits int
	for _, c := range inner[:encodedBytes] {
		switch {
		case c >= 'A' && c <= 'Z':
			upper++
		case c >= 'a' && c <= 'z':
			lower++
		case c >= '0' && c <= '9':
			digits++
		}
	}
	return upper > 16 && lower > 16 && digits > 4
}

// unescaped returns the text between a JSON string's quotes.
func unescaped(token []byte) []byte {
	if len(token) < 2 || token[0] != '"' {
		return nil
	}
	return token[1 : len(token)-1]
}
