package stream

import "bytes"

// array is the place within one JSON array whose elements are the events. A
// text that is no array is one event.
type array struct {
	state arrayState
	depth int // open levels inside the element
	quote arrayQuote
}

type arrayState uint8

const (
	arrayStart   arrayState = iota
	arrayBetween            // before an element
	arrayElement
	arrayOther // no array: a document
	arrayDone
)

type arrayQuote uint8

const (
	unquoted arrayQuote = iota
	quoted
	escaped
)

// Closed tells whether an Array has ended with its bracket.
func (r *Reader) Closed() bool { return r.array.state == arrayDone }

// Single tells whether what should be an Array was found to be one document.
func (r *Reader) Single() bool { return r.array.state == arrayOther }

func (r *Reader) nextElement(p []byte) (int, []byte, What) {
	a := &r.array
	switch a.state {
	case arrayElement:
		return r.element(p)
	case arrayOther:
		return len(p), p, Data
	case arrayDone:
		return len(p), nil, More
	}
	for i, c := range p {
		switch c {
		case ' ', '\n', '\r', '\t', ',', 0xEF, 0xBB, 0xBF:
			continue
		case '[':
			if a.state == arrayStart {
				a.state = arrayBetween
				continue
			}
		case ']':
			if a.state == arrayBetween {
				a.state = arrayDone
				return i + 1, nil, More
			}
		}
		if a.state == arrayStart {
			a.state = arrayOther
			return len(p), p[i:], Data
		}
		a.state = arrayElement
		n, data, what := r.element(p[i:])
		return i + n, data, what
	}
	return len(p), nil, More
}

// element reads to the end of an element, which is told by a step of its own.
func (r *Reader) element(p []byte) (int, []byte, What) {
	a := &r.array
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch a.quote {
		case escaped:
			a.quote = quoted
			continue
		case quoted:
			skip := bytes.IndexAny(p[i:], `"\`)
			if skip < 0 {
				return len(p), p, Data
			}
			i += skip
			a.quote = escaped
			if p[i] == '"' {
				a.quote = unquoted
			}
			continue
		}
		switch c {
		case '"':
			a.quote = quoted
		case '{', '[':
			a.depth++
		case '}', ']', ',':
			if a.depth > 0 {
				if c != ',' {
					a.depth--
				}
				continue
			}
			if i > 0 {
				return i, p[:i], Data
			}
			a.state = arrayBetween
			if c == ']' {
				a.state = arrayDone
			}
			return 1, nil, End
		}
	}
	return len(p), p, Data
}
