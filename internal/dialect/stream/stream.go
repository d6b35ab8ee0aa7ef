// Package stream cuts an answer into its events, whatever carries them:
// server-sent events, lines of JSON, an array of JSON, the binary frames of
// AWS, or one whole document. It knows no API and reads no JSON.
//
// This file has the Reader and its contract; sse.go, lines.go, array.go and
// frames.go hold one format each.
//
// A Reader is fed pieces that may be cut anywhere, holds nothing of them but a
// name and a few bytes of framing, and takes time linear in what it is fed.
package stream

// Format is how an answer carries its events.
type Format uint8

// The formats.
const (
	Document Format = iota // the whole answer is one event
	SSE                    // text/event-stream
	Lines                  // one JSON text a line
	Array                  // the elements of one JSON array; any other text is a Document
	Frames                 // application/vnd.amazon.eventstream
)

// What says what a step of a Reader came upon.
type What uint8

// What a Reader comes upon.
const (
	More What = iota // framing, or nothing yet
	Data             // data of the current event: the last bytes used
	Join             // an LF that joins the event's data lines, which stands nowhere
	End              // the current event has ended, its framing included
	Gap              // a boundary that ends no event
	Tail             // the rest of the framing of the last End or Gap
)

// Reader cuts one answer. New makes one.
type Reader struct {
	format  Format
	pending bool // the current event has data
	over    bool // the last step ended an event
	between bool // nothing has come since an event's end, or at all
	done    bool // the current event's data begins with [DONE]
	seen    int8 // bytes of [DONE] seen
	name    []byte
	kind    []byte

	sse    sse
	array  array
	frames frames
}

// New returns a Reader of a format.
func New(f Format) *Reader { return &Reader{format: f, between: true} }

// Next reads from p, which must not be empty, and returns how many bytes it
// used (at least one), and what they were. data aliases the last of them; a
// Join's is an LF of its own.
func (r *Reader) Next(p []byte) (n int, data []byte, what What) {
	if r.over {
		r.begin()
	}
	switch r.format {
	case SSE:
		n, data, what = r.nextSSE(p)
	case Lines:
		n, data, what = r.nextLine(p)
	case Array:
		n, data, what = r.nextElement(p)
	case Frames:
		n, data, what = r.nextFrame(p)
	default:
		n, data, what = len(p), p, Data
	}
	switch what {
	case Data, Join:
		r.mark(data)
	case End, Gap:
		r.over = true
	}
	r.between = what == End || what == Gap || what == Tail
	return n, data, what
}

// Between tells whether an event has just ended, its framing included, or
// nothing has come: another may stand here.
func (r *Reader) Between() bool { return r.between }

// Finish says that nothing more comes, and tells whether an event is left that
// had not ended. An unterminated last event counts as one.
func (r *Reader) Finish() bool {
	pending := r.pending && !r.over
	r.pending = false
	return pending
}

// begin forgets the last event.
func (r *Reader) begin() {
	r.pending, r.over, r.done, r.seen = false, false, false, 0
	r.name, r.kind = r.name[:0], r.kind[:0]
}

// Name is the current event's name, or that of the one that has just ended:
// SSE's event field, a frame's :event-type or :exception-type. It holds until
// the next step.
func (r *Reader) Name() []byte { return r.name }

// Exception tells whether the current frame is an exception or an error.
func (r *Reader) Exception() bool { return string(r.kind) == "exception" || string(r.kind) == "error" }

// Done tells whether the current event is OpenAI's end mark, [DONE].
func (r *Reader) Done() bool { return r.done }

const doneMark = "[DONE]"

// mark looks for the end mark at the start of an event's data.
func (r *Reader) mark(data []byte) {
	for _, c := range data {
		if r.done || r.seen < 0 {
			break
		}
		if r.seen == 0 && (c == ' ' || c == '\n' || c == '\r') {
			continue
		}
		if c != doneMark[r.seen] {
			r.seen = -1
			break
		}
		r.seen++
		r.done = int(r.seen) == len(doneMark)
	}
	r.pending = r.pending || len(data) > 0
}
