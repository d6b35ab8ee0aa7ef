package stream

import "bytes"

// nextLine reads lines of JSON. White space at their ends is left to whoever
// reads the JSON.
func (r *Reader) nextLine(p []byte) (int, []byte, What) {
	end := bytes.IndexByte(p, '\n')
	switch {
	case end < 0:
		return len(p), p, r.blank(p)
	case end > 0:
		return end, p[:end], r.blank(p[:end])
	case r.pending:
		return 1, nil, End
	}
	return 1, nil, Gap
}

// blank tells Data from white space before an event, which is More.
func (r *Reader) blank(p []byte) What {
	if r.pending {
		return Data
	}
	for _, c := range p {
		switch c {
		case ' ', '\t', '\r', 0xEF, 0xBB, 0xBF: // a byte order mark's bytes begin no JSON
		default:
			return Data
		}
	}
	return More
}
