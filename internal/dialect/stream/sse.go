package stream

import "bytes"

// maxName is the longest event name that is kept.
const maxName = 96

// sse is the place within a text/event-stream:
//
//	start ─► field ──:──► space ─► value ──line end──► field …
//	               └─other names, comments─► rest ──line end──► field …
//
// An empty line ends the event. A line ends with LF, CRLF or CR.
type sse struct {
	state  sseState
	skipLF bool // a CR was the last byte: an LF belongs to it
	ended  bool // and that CR ended an event
	lines  bool // the event has a data line already
	bom    int8 // bytes of the byte order mark seen
	fieldN int8 // bytes of the field's name seen
	field  [6]byte
}

type sseState uint8

const (
	sseStart sseState = iota // of the stream
	sseField                 // in a field's name
	sseSpace                 // behind data's colon
	sseData
	sseNameSpace // behind event's colon
	sseName
	sseRest // of a line that says nothing
)

var byteOrderMark = [3]byte{0xEF, 0xBB, 0xBF}

func (r *Reader) nextSSE(p []byte) (int, []byte, What) {
	s := &r.sse
	if s.skipLF {
		s.skipLF = false
		ended := s.ended
		s.ended = false
		if p[0] == '\n' {
			if ended {
				return 1, nil, Tail
			}
			return 1, nil, More
		}
	}
	if s.state == sseData {
		return r.sseValue(p)
	}
	for i, c := range p {
		switch {
		case s.state == sseStart && c == byteOrderMark[s.bom]:
			if s.bom++; s.bom == 3 {
				s.state = sseField
			}
			continue
		case s.state == sseStart:
			s.state = sseField
			if s.bom > 0 {
				s.state = sseRest
			}
		}
		if c == '\n' || c == '\r' {
			if what := r.lineEnd(c); what != More || c == '\r' {
				return i + 1, nil, what
			}
			continue
		}
		switch s.state {
		case sseField:
			if !r.fieldByte(c) {
				continue
			}
			if s.lines { // the lines of an event's data are joined by LF
				s.state = sseSpace
				return i + 1, newline, Join
			}
			s.lines = true
		case sseSpace:
			s.state = sseData
			if c != ' ' {
				n, data, what := r.sseValue(p[i:])
				return i + n, data, what
			}
			if i+1 < len(p) {
				n, data, what := r.sseValue(p[i+1:])
				return i + 1 + n, data, what
			}
		case sseNameSpace, sseName:
			if (s.state != sseNameSpace || c != ' ') && len(r.name) < maxName {
				r.name = append(r.name, c)
			}
			s.state = sseName
		}
	}
	return len(p), nil, More
}

var newline = []byte("\n")

// fieldByte takes a byte of a field's name, and tells whether it was the colon
// behind data.
func (r *Reader) fieldByte(c byte) bool {
	s := &r.sse
	if c != ':' {
		if int(s.fieldN) == len(s.field) {
			s.state = sseRest
			return false
		}
		s.field[s.fieldN] = c
		s.fieldN++
		return false
	}
	name := string(s.field[:s.fieldN])
	s.fieldN = 0
	switch name {
	case "data":
		s.state = sseSpace
		return true
	case "event":
		s.state = sseNameSpace
		r.name = r.name[:0]
	default:
		s.state = sseRest
	}
	return false
}

// lineEnd ends a line that has no data left to tell.
func (r *Reader) lineEnd(c byte) What {
	s := &r.sse
	s.skipLF = c == '\r'
	empty := s.state == sseField && s.fieldN == 0
	s.state, s.fieldN = sseField, 0
	if !empty {
		return More
	}
	s.ended = s.skipLF
	s.lines = false
	if r.pending {
		return End
	}
	return Gap
}

// sseValue reads data up to the end of its line.
func (r *Reader) sseValue(p []byte) (int, []byte, What) {
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		end = len(p)
	}
	if cr := bytes.IndexByte(p[:end], '\r'); cr >= 0 {
		end = cr
	}
	if end > 0 {
		return end, p[:end], Data
	}
	r.lineEnd(p[0])
	return 1, nil, More
}
