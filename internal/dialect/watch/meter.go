package watch

import (
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/coding"
	"llmgw/internal/dialect/stream"
	"llmgw/internal/jsonscan"
	"llmgw/internal/tokens"
)

// Meter watches one answer by the table of its API. It is a dialect.Meter.
type Meter struct {
	reading  reading
	reader   stream.Reader
	push     jsonscan.Push
	format   stream.Format
	hider    *hider    // nil: nothing is hidden
	unpacker *unpacker // nil: the answer is not compressed

	root     *jsonscan.Node
	noOutput bool
	isError  bool  // by its status
	opaque   bool  // it is, or may be, something else than JSON
	isText   bool  // it is text of some kind
	packed   bool  // it is compressed
	size     int64 // of what came
	blind    bool  // in a way that is not known
	inside   bool  // an event has begun
	over     bool  // End was called
	whole    bool  // a document was read to its end
	first    bool  // an error came before any output
	events   int
}

// New returns a meter for the answer to a call. End must be called at every
// ending: a compressed answer's decoder is released there.
func New(api *API, c *dialect.Call, a dialect.Answer, o dialect.MeterOptions) *Meter {
	m := &Meter{format: api.format(c, a), noOutput: c.NoOutput, isError: a.Status >= 400}
	m.reader = *stream.New(m.format)
	m.reading = reading{api: api, text: text{count: o.Count}}
	m.root = api.Event
	if m.format == stream.Document {
		m.root = api.Document
		kind := contentType(a.Header)
		m.opaque, m.isText = api.Plain && !isJSON(kind) && !m.isError, strings.HasPrefix(kind, "text/")
	}
	if m.isError {
		m.root = errorDocument.Document
	}
	if api.Headers != nil {
		api.Headers(a.Header, m.reading.header)
	}
	switch encoding := a.Header.Get("Content-Encoding"); {
	case !coding.Plain(encoding):
		m.unpacker = newUnpacker(encoding, m.scan)
		m.blind = m.unpacker == nil
		m.packed = true
	case o.HideUsage && api.Hideable && m.format == stream.SSE && !m.isError:
		m.hider = &hider{}
	}
	return m
}

// header takes what a header says, as if it stood in the answer.
func (r *reading) header(f Field, value string) {
	if value == "" {
		return
	}
	if f >= firstCount && f <= lastCount {
		r.counts.read(f, []byte(value))
		return
	}
	if f == ErrorType {
		r.headerType = value
		return
	}
	r.billed.scalar(f, []byte(value))
}

// Feed implements dialect.Meter.
func (m *Meter) Feed(p []byte) []byte {
	m.size += int64(len(p))
	switch {
	case len(p) == 0 || m.over:
		return p
	case m.blind:
		m.events = 1
		return p
	case m.unpacker != nil:
		m.unpacker.write(p)
		return p
	case m.hider != nil:
		return m.filter(p)
	}
	m.scan(p)
	return p
}

// scan reads the next bytes of the plain answer.
func (m *Meter) scan(p []byte) {
	for len(p) > 0 {
		n, data, what := m.reader.Next(p)
		m.take(data, what)
		p = p[n:]
	}
}

// take reads what a step of the reader came upon.
func (m *Meter) take(data []byte, what stream.What) {
	switch what {
	case stream.Data, stream.Join:
		if !m.inside {
			m.beginEvent()
		}
		if m.opaque {
			m.plain(data)
			return
		}
		m.push.Write(data)
	case stream.End:
		if !m.inside {
			m.beginEvent() // a frame without a payload
		}
		m.endEvent()
	}
}

// plain reads an answer that is no JSON: what is text was said by the model.
func (m *Meter) plain(data []byte) {
	if m.isText {
		m.reading.Part(Text, data)
	}
}

func (m *Meter) beginEvent() {
	m.inside = true
	m.reading.begin()
	m.reading.text.mark()
	m.reading.call(m.reader.Name())
	m.push.Start(m.root, &m.reading)
}

func (m *Meter) endEvent() {
	m.inside = false
	m.push.End()
	r := &m.reading
	r.call(m.reader.Name())
	if m.single() {
		m.whole = m.push.Done()
	}
	if m.reader.Exception() {
		r.failed = true
		r.fault.Type = string(m.reader.Name())
	}
	if m.isError {
		r.failed = true
		r.fault.Type = either(r.headerType, r.fault.Type)
	}
	if m.reader.Done() {
		r.ended = true
	}
	r.end()
	m.first = m.first || !r.content && r.failure != nil
	m.events++
}

// endLast ends an event that the answer left open. If it was cut within its
// JSON no client reads it, and its text counts as never sent.
func (m *Meter) endLast() {
	if m.single() || m.push.Done() {
		m.endEvent()
		return
	}
	m.inside = false
	m.reading.text.forget()
}

// End implements dialect.Meter.
func (m *Meter) End() []byte {
	if m.over {
		return nil
	}
	m.over = true
	if m.unpacker != nil {
		m.unpacker.close()
	}
	var rest []byte
	pending := m.reader.Finish()
	if pending {
		m.endLast()
	}
	if m.hider != nil {
		rest = m.flush(pending)
	}
	if m.isError && m.reading.failure == nil {
		m.reading.fail(dialect.Failure{Type: m.reading.headerType})
	}
	return rest
}

// Report implements dialect.Meter.
func (m *Meter) Report() dialect.Report {
	r := &m.reading
	report := dialect.Report{
		Usage:       r.counts.usage(),
		InputKnown:  r.counts.inputKnown(),
		OutputKnown: r.counts.outputKnown(),
		Counted:     r.text.sum(),
		Seconds:     r.seconds,
		Complete:    m.complete(),
		Due:         m.Due(),
		Billed:      r.reported && !m.single(),
		Failure:     r.failure,
		FailedFirst: m.first,
		Between:     m.between(),
		Events:      m.events,
		Content:     r.content,
		Finish:      r.finish,
		Model:       r.model,
		ID:          r.id,
		Stream:      m.format != stream.Document,
	}
	r.billed.put(&report.Usage, report.InputKnown)
	report.TierKnown = r.billed.known
	if r.api.Searches && r.content {
		report.Usage.Calls[tokens.WebSearch] = max(1, report.Usage.Calls[tokens.WebSearch])
	}
	if m.unreadable() {
		report.Unreadable = true
		report.Counted = max(report.Counted, tokens.Count(m.size/bytesPerToken))
	}
	m.settleZeros(&report)
	return report
}

// Due implements dialect.Meter.
func (m *Meter) Due() bool {
	r := &m.reading
	return r.whole && !r.reported && !r.ended && r.failure == nil && !m.single()
}

// bytesPerToken is how much of an answer that cannot be read counts as a token.
const bytesPerToken = 4

// unreadable tells whether the answer is not what it says: coded in a way that
// is not known, or otherwise than it says, or no JSON; or says what nobody
// knows.
func (m *Meter) unreadable() bool {
	r := &m.reading
	switch {
	case m.blind || m.unpacker != nil && m.unpacker.failed:
		return true
	case m.isError || m.opaque || !m.single():
		return false
	}
	return m.push.Broken() || r.api.Foreign && m.push.Done() && !r.content && r.counts.set == 0
}

// settleZeros tells an output of nothing from one that was not reported.
func (m *Meter) settleZeros(report *dialect.Report) {
	r := &m.reading
	if r.counts.set == 0 && report.Complete && !r.content && (r.zeros || r.api.OmitsZero && (r.ended || r.now.ended)) {
		report.InputKnown, report.OutputKnown = true, true
	}
	if report.InputKnown && report.Complete && !r.content {
		report.OutputKnown = true
	}
	if m.noOutput { // unless one is reported all the same, which is then billed
		if !r.counts.has(Output, ThoughtsApart) {
			report.Usage.Output, report.Usage.Reasoning = 0, 0
		}
		report.OutputKnown = true
	}
	report.Counted = min(report.Counted, tokens.MaxCount)
}

// between tells whether an event of our own may follow what was passed on. What
// is held back is not: it would be lost.
func (m *Meter) between() bool {
	framed := m.format == stream.SSE || m.format == stream.Lines || m.format == stream.Frames
	held := m.hider != nil && !m.hider.passing
	return framed && !m.packed && (held || m.reader.Between())
}

// single tells whether the answer is one document, for all that is known yet.
func (m *Meter) single() bool { return m.format == stream.Document || m.reader.Single() }

func (m *Meter) complete() bool {
	r := &m.reading
	switch {
	case r.failure != nil || m.isError || r.api.Pending[r.finish]:
		return false
	case !m.single():
		return r.ended || m.reader.Closed() || r.api.Ends == nil && r.finished()
	case m.opaque:
		return false // only the end of the transfer tells
	}
	return m.whole || m.inside && m.push.Done() && !r.failed && !r.api.Pending[r.now.finish]
}
