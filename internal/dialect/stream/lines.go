package stream

import "bytes"

// nextLine reads lines of JSON. White space at their ends is left to whoever
// reads the JSON.
func (r *Reader) nextLine(p []byte) (int, []byte, What) {
	if !r.pending {
		if n := blanks(p); n > 0 {
			return n, nil, More
		}
	}
	end := bytes.IndexByte(p, '\n')
	switch {
	case end < 0:
		return len(p), p, Data
	case end > 0:
		return end, p[:end], Data
	case r.pending:
		return 1, nil, End
	}
	return 1, nil, Gap
}

// blanks is how many bytes p starts with that begin no JSON and end no line,
// those of a byte order mark among them.
func blanks(p []byte) int {
	for i, c := range p {
		switch c {
		case ' ', '\t', '\r', 0xEF, 0xBB, 0xBF:
		default:
			return i
		}
	}
	return len(p)
}
