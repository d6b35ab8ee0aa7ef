package watch

import (
	"llmgw/internal/dialect/stream"
	"llmgw/internal/jsonscan"
)

// maxHeld is the largest event that is held back. Of a larger one that reports
// usage the report is blanked while it passes.
const maxHeld = 512 << 10

// hider takes usage out of an event stream, for a client that did not ask for
// it: a chunk that has nothing but usage goes whole, of another chunk the usage
// member goes. Every other byte stays. The current event is held back until its
// end is seen.
type hider struct {
	held     []byte // from the start of the current event on
	released int    // of held: given out by the last call
	parts    []part // the data of the current event
	out      []byte // an edited answer, given out by the last call
	passing  bool   // the current event is too large to be held
	blank    blanker
	dropped  bool // the last event was dropped: so is its tail
}

// part says where some of an event's data stands.
type part struct {
	data int // offset in the joined data
	at   int // offset in the event
	n    int
}

// filter reads p and returns what the client gets of it.
func (m *Meter) filter(p []byte) []byte {
	h := m.hider
	h.held = h.held[:copy(h.held, h.held[h.released:])]
	h.released = 0
	if cap(h.out) > smallHold {
		h.out = nil
	}
	buf, pos := p, 0
	if len(h.held) > 0 {
		pos = len(h.held)
		h.held = append(h.held, p...)
		buf = h.held
	}
	start, cuts := 0, []cut(nil)
	for pos < len(buf) {
		n, data, what := m.reader.Next(buf[pos:])
		m.take(data, what)
		pos += n
		switch what {
		case stream.Data, stream.Join:
			if h.passing {
				cuts = h.blankOut(cuts, what, data, pos-len(data))
				break
			}
			h.note(what, len(data), pos-start)
		case stream.End:
			cuts = m.edit(cuts, buf[start:pos], start)
			start = pos
		case stream.Gap:
			h.parts, h.passing, h.dropped = h.parts[:0], false, false
			start = pos
		case stream.Tail:
			if h.dropped {
				cuts = append(cuts, cut{start: start, end: pos})
			}
			start = pos
		}
	}
	if !h.passing && len(buf)-start > maxHeld {
		cuts = h.pass(cuts, buf, start)
	}
	if h.passing {
		start = len(buf)
	}
	h.keep(buf, start)
	return h.without(buf[:start], cuts)
}

// pass lets the current event, which starts at buf[start], go as it comes from
// now on.
func (h *hider) pass(cuts []cut, buf []byte, start int) []cut {
	h.passing, h.blank = true, blanker{}
	for _, p := range h.parts {
		if p.at < 0 { // a line feed, which ends nothing
			continue
		}
		at := start + p.at
		cuts = h.blankOut(cuts, stream.Data, buf[at:at+p.n], at)
	}
	return cuts
}

// blankOut cuts out usage of an event that passes: what is data stands at offset
// at of the answer's buffer.
func (h *hider) blankOut(cuts []cut, what stream.What, data []byte, at int) []cut {
	if what == stream.Data {
		h.blank.read(data, func(start, end int, begins bool) {
			cuts = append(cuts, cut{start: at + start, end: at + end, null: begins})
		})
	}
	return cuts
}

// cut is a range of the answer that the client does not get.
type cut struct {
	start, end int
	null       bool // it gets null instead
}

// note remembers where data stands: its last byte is before offset end of the
// event.
func (h *hider) note(what stream.What, n, end int) {
	data := 0
	if k := len(h.parts); k > 0 {
		data = h.parts[k-1].data + h.parts[k-1].n
	}
	if what == stream.Join {
		end = -1 // it stands nowhere
	}
	if k := len(h.parts); k > 0 && end >= 0 && h.parts[k-1].at >= 0 && h.parts[k-1].at+h.parts[k-1].n == end-n {
		h.parts[k-1].n += n // it goes on where the last piece ended
		return
	}
	h.parts = append(h.parts, part{data: data, at: end - n, n: n})
}

// keep holds back what follows offset start of buf.
func (h *hider) keep(buf []byte, start int) {
	if len(h.held) > 0 && len(buf) == len(h.held) {
		h.released = start
		return
	}
	h.held = append(h.held[:0], buf[start:]...)
	if len(h.held) == 0 && cap(h.held) > smallHold {
		h.held = nil
	}
}

// smallHold is the largest buffer that an idle stream keeps.
const smallHold = 4 << 10

// without returns buf without the cuts.
func (h *hider) without(buf []byte, cuts []cut) []byte {
	if len(cuts) == 0 {
		return buf
	}
	h.out = h.out[:0]
	from := 0
	for _, c := range cuts {
		h.out = append(h.out, buf[from:max(from, c.start)]...)
		from = max(from, c.end)
		if c.null {
			h.out = append(h.out, "null"...)
		}
	}
	h.out = append(h.out, buf[from:]...)
	return h.out
}

// edit appends what of the event that has just ended is cut.
func (m *Meter) edit(cuts []cut, event []byte, at int) []cut {
	h := m.hider
	parts, passed := h.parts, h.passing
	h.parts, h.passing, h.dropped = h.parts[:0], false, false
	if passed || !m.reading.hides {
		return cuts
	}
	data := joined(event, parts)
	drop, members := usageOf(data)
	if drop {
		h.dropped = true
		return append(cuts, cut{start: at, end: at + len(event)})
	}
	for _, c := range members {
		cuts = appendCut(cuts, parts, c, at)
	}
	return cuts
}

// flush returns what is still held once the answer has ended. An event that
// ended without its blank line is edited as any other.
func (m *Meter) flush(pending bool) []byte {
	h := m.hider
	rest := h.held[h.released:]
	h.held, h.released = nil, 0
	if !pending || len(rest) == 0 {
		return rest
	}
	return h.without(rest, m.edit(nil, rest, 0))
}

// joined is the data of an event.
func joined(event []byte, parts []part) []byte {
	if len(parts) == 1 {
		return event[parts[0].at : parts[0].at+parts[0].n]
	}
	var data []byte
	for _, p := range parts {
		if p.at < 0 {
			data = append(data, '\n')
			continue
		}
		data = append(data, event[p.at:p.at+p.n]...)
	}
	return data
}

// appendCut adds a range of an event's data as ranges of the answer.
func appendCut(cuts []cut, parts []part, c jsonscan.Span, at int) []cut {
	for _, p := range parts {
		from, to := max(c.Start, p.data), min(c.End, p.data+p.n)
		if p.at >= 0 && from < to {
			cuts = append(cuts, cut{start: at + p.at + from - p.data, end: at + p.at + to - p.data})
		}
	}
	return cuts
}
