package fakellm

// framing turns JSON documents into a stream: server-sent events with the
// quirks that a script asks for, the elements of a JSON array, lines, or binary
// frames.
type framing struct {
	buf    []byte
	script *Script
	wire   wire
	events int
	data   int         // where the data of the open event begins in buf
	head   [][2]string // of an open frame
}

// open begins an event. The JSON of its data is then appended to buf.
func (f *framing) open(name string) {
	f.events++
	switch f.wire {
	case jsonArray:
		f.buf = append(f.buf, map[bool]string{true: "[", false: ",\r\n"}[f.events == 1]...)
		return
	case jsonLines:
		return
	case eventFrames:
		f.frame("event", name)
		return
	}
	if f.events == 1 && f.script.BOM {
		f.buf = append(f.buf, "\xef\xbb\xbf"...)
	}
	if f.script.Comments {
		f.buf = append(f.buf, ": still here"...)
		f.line()
	}
	if name != "" {
		f.buf = append(f.buf, "event: "...)
		f.buf = append(f.buf, name...)
		f.line()
	}
	f.field()
	f.data = len(f.buf)
}

// close ends the event.
func (f *framing) close() {
	switch f.wire {
	case jsonArray:
		return
	case jsonLines:
		f.buf = append(f.buf, '\n')
		return
	case eventFrames:
		payload := string(f.buf[f.data:])
		f.buf = appendFrame(f.buf[:f.data], f.head, []byte(payload))
		return
	}
	if f.script.Lines && len(f.buf) > f.data+1 && f.buf[f.data] == '{' {
		rest := string(f.buf[f.data+1:])
		f.buf = f.buf[:f.data+1]
		f.line()
		f.field()
		f.buf = append(f.buf, rest...)
	}
	f.line()
	f.line()
}

// frame begins a binary frame of a kind.
func (f *framing) frame(kind, name string) {
	f.data = len(f.buf)
	f.head = [][2]string{{":" + kind + "-type", name}, {":content-type", "application/json"}, {":message-type", kind}}
}

// exception begins a frame that is an error.
func (f *framing) exception(name string) {
	f.events++
	f.frame("exception", name)
}

// field begins a line of data.
func (f *framing) field() {
	f.buf = append(f.buf, "data: "...)
	if f.script.NoSpace {
		f.buf = f.buf[:len(f.buf)-1]
	}
}

func (f *framing) line() {
	switch {
	case f.script.CRLF:
		f.buf = append(f.buf, '\r', '\n')
	case f.script.CR:
		f.buf = append(f.buf, '\r')
	default:
		f.buf = append(f.buf, '\n')
	}
}

// finish ends the stream, after its last event.
func (f *framing) finish() {
	switch f.wire {
	case jsonArray:
		f.buf = append(f.buf, ']')
		return
	case jsonLines, eventFrames:
		return
	}
	if f.script.NoBlank {
		n := 1
		if f.script.CRLF {
			n = 2
		}
		f.buf = f.buf[:max(len(f.buf)-n, 0)]
	}
}
