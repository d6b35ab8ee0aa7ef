package stream

import (
	"encoding/binary"
	"hash/crc32"
)

// frames is the place within an AWS event stream. A frame is
//
//	total length, headers length (u32), CRC-32 of these, headers, payload, CRC-32
//
// A frame whose head is wrong ends the reading: nothing behind it can be found.
type frames struct {
	state   frameState
	n       uint32 // bytes of this part still to come, or of the prelude seen
	payload uint32
	prelude [preludeSize]byte
	headers []byte
}

type frameState uint8

const (
	framePrelude frameState = iota
	frameHeaders
	framePayload
	frameCheck
	frameBroken
)

const (
	preludeSize = 12
	checkSize   = 4
	// maxHeaders is the most of a frame's headers that is kept to be read;
	// what AWS sends takes some 200 bytes.
	maxHeaders = 4 << 10
)

func (r *Reader) nextFrame(p []byte) (int, []byte, What) {
	f := &r.frames
	switch f.state {
	case framePrelude:
		n := copy(f.prelude[f.n:], p)
		if f.n += uint32(n); f.n == preludeSize {
			r.beginFrame()
		}
		return n, nil, More
	case frameHeaders:
		n := min(int(f.n), len(p))
		f.headers = append(f.headers, p[:min(n, maxHeaders-len(f.headers))]...)
		if f.n -= uint32(n); f.n == 0 {
			r.endHeaders()
		}
		return n, nil, More
	case framePayload:
		n := min(int(f.n), len(p))
		if f.n -= uint32(n); f.n == 0 {
			f.state, f.n = frameCheck, checkSize
		}
		return n, p[:n], Data
	case frameCheck:
		n := min(int(f.n), len(p))
		if f.n -= uint32(n); f.n > 0 {
			return n, nil, More
		}
		f.state = framePrelude
		return n, nil, End
	}
	return len(p), nil, More
}

func (r *Reader) beginFrame() {
	f := &r.frames
	total := binary.BigEndian.Uint32(f.prelude[0:])
	headers := binary.BigEndian.Uint32(f.prelude[4:])
	check := binary.BigEndian.Uint32(f.prelude[8:])
	f.headers = f.headers[:0]
	if check != crc32.ChecksumIEEE(f.prelude[:8]) || total < preludeSize+checkSize || headers > total-preludeSize-checkSize {
		f.state = frameBroken
		return
	}
	r.pending = true
	f.payload = total - preludeSize - checkSize - headers
	f.state, f.n = frameHeaders, headers
	if headers == 0 {
		r.endHeaders()
	}
}

func (r *Reader) endHeaders() {
	f := &r.frames
	r.readHeaders(f.headers)
	f.state, f.n = framePayload, f.payload
	if f.payload == 0 {
		f.state, f.n = frameCheck, checkSize
	}
}

// sizes are those of the values of the header types 0 to 9; -1: two bytes of
// length come first.
var sizes = [...]int{0, 0, 1, 2, 4, 8, -1, -1, 8, 16}

const stringType = 7

// readHeaders keeps what the headers say of the frame's kind and name.
func (r *Reader) readHeaders(h []byte) {
	for len(h) > 0 {
		n := int(h[0])
		if len(h) < 1+n+1 || int(h[1+n]) >= len(sizes) {
			return
		}
		name, kind := string(h[1:1+n]), h[1+n]
		h = h[1+n+1:]
		size := sizes[kind]
		if size < 0 {
			if len(h) < 2 {
				return
			}
			size = int(binary.BigEndian.Uint16(h))
			h = h[2:]
		}
		if len(h) < size {
			return
		}
		if kind == stringType {
			r.keepHeader(name, h[:min(size, maxName)])
		}
		h = h[size:]
	}
}

func (r *Reader) keepHeader(name string, value []byte) {
	switch name {
	case ":event-type", ":exception-type", ":error-code":
		r.name = append(r.name[:0], value...)
	case ":message-type":
		r.kind = append(r.kind[:0], value...)
	}
}

// AppendFrame appends a frame with string headers, given as pairs of name and
// value.
func AppendFrame(dst []byte, headers [][2]string, payload []byte) []byte {
	var h []byte
	for _, pair := range headers {
		h = append(append(h, byte(len(pair[0]))), pair[0]...)
		h = binary.BigEndian.AppendUint16(append(h, stringType), uint16(len(pair[1])))
		h = append(h, pair[1]...)
	}
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, uint32(preludeSize+len(h)+len(payload)+checkSize))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(h)))
	dst = binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:]))
	dst = append(append(dst, h...), payload...)
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:]))
}
