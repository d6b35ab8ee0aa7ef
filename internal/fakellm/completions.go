package fakellm

import "strconv"

// completionShape is OpenAI's legacy completions.
type completionShape struct{}

var completionFinish = [3]string{"stop", "length", "stop"}

func (s completionShape) document(b []byte, a *answer) []byte {
	b = s.preamble(b, a)
	for i := range a.n {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.choice(b, i, a.text, a.finish.name(completionFinish))
	}
	b = append(b, ']')
	if !a.script.NoUsage {
		b = append(b, `,"usage":`...)
		b = a.usage.chat(b)
	}
	return append(b, '}')
}

func (completionShape) preamble(b []byte, a *answer) []byte {
	b = append(b, `{"id":`...)
	b = a.appendID(b, "cmpl-sim")
	b = append(b, `,"object":"text_completion"`...)
	b = appendField(b, "created", a.created)
	b = append(b, `,"model":`...)
	b = appendString(b, a.model)
	return append(b, `,"choices":[`...)
}

func (completionShape) choice(b []byte, i int64, text, finish string) []byte {
	b = append(b, `{"text":`...)
	b = appendString(b, text)
	b = append(b, `,"index":`...)
	b = strconv.AppendInt(b, i, 10)
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	b = appendNullable(b, finish)
	return append(b, '}')
}

func (completionShape) head(*framing, *answer) {}

func (s completionShape) delta(f *framing, a *answer, i int) {
	s.chunk(f, a, a.piece(i), "", a.running(i+1))
}

func (s completionShape) chunk(f *framing, a *answer, text, finish string, u *usage) {
	for choice := range a.n {
		f.open("")
		f.buf = s.preamble(f.buf, a)
		f.buf = s.choice(f.buf, choice, text, finish)
		f.buf = append(f.buf, ']')
		s.end(f, a, u)
	}
}

func (completionShape) end(f *framing, a *answer, u *usage) {
	switch {
	case u != nil:
		f.buf = append(f.buf, `,"usage":`...)
		f.buf = u.chat(f.buf)
	case a.reports():
		f.buf = append(f.buf, `,"usage":null`...)
	}
	f.buf = append(f.buf, '}')
	f.close()
}

func (s completionShape) tail(f *framing, a *answer) {
	u := a.running(a.chunks)
	if a.script.OnFinish && a.reports() {
		u = &a.usage
	}
	s.chunk(f, a, "", a.finish.name(completionFinish), u)
	if a.reports() && !a.script.OnFinish {
		f.open("")
		f.buf = append(s.preamble(f.buf, a), ']')
		s.end(f, a, &a.usage)
	}
	doneEvent(f, a)
}

func (completionShape) broken(f *framing, _ *answer) { openaiBroken(f) }
