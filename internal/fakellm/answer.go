package fakellm

import "strconv"

// answer is what will be said, in terms that all APIs share.
type answer struct {
	*request
	id      int64 // unique within the provider
	created int64 // unix seconds
	attempt int64
	usage   usage
	finish  finish
	text    string // all of it, of one choice
	words   int64  // in text; 0 where it was measured in bytes
	speech  cycle
	chunks  int

	arguments string // of the tool call, a JSON object; empty: the text
}

// usage is what is reported. Input and output are totals.
type usage struct{ input, cached, written, output, reasoning int64 }

// finish is why the text ended.
type finish int

const (
	stop finish = iota
	length
	toolCall
)

// compose decides what to answer to q, the attempt-th request for its model.
func (p *Provider) compose(q *request, attempt int64) *answer {
	s := q.script
	a := &answer{request: q, id: p.ids.Add(1), created: p.options.Now().Unix(), attempt: attempt, speech: plainWords}
	if s.Wide {
		a.speech = wideWords
	}
	produced := s.produces()
	if s.Tool && q.tool != "" && (!s.Once || !q.result) {
		a.finish = toolCall
		a.arguments = p.options.Calls[q.tool]
	}
	if q.output >= 0 && produced > q.output {
		produced, a.finish = q.output, length
	}
	a.say(produced)
	a.usage = q.spends(produced)
	return a
}

// spends is the usage to report for an answer of produced tokens a choice.
func (q *request) spends(produced int64) usage {
	s := q.script
	switch q.op {
	case chat, completion, responses, messages, generate, converse, invoke, cohereChat, ollamaChat, ollamaGenerate, pictures, transcripts:
	case embeddings, embedContent, batchEmbed, cohereEmbed, ollamaEmbed:
		return usage{input: q.input()}
	default:
		return usage{}
	}
	if s.ZeroUsage {
		return usage{}
	}
	u := usage{input: q.input(), cached: s.Cached, written: s.Written, output: produced * q.n, reasoning: min(s.Reasoning, produced) * q.n}
	if s.Report >= 0 {
		u.output = s.Report
		u.reasoning = min(u.reasoning, s.Report)
	}
	return u
}

// produces is how many tokens s lets the model produce, if it may.
func (s *Script) produces() int64 {
	switch {
	case s.Size >= 0:
		return ceilDiv(s.Size, 4)
	case s.Output >= 0:
		return s.Output
	}
	return max(16, s.Chunks)
}

// say makes the text of produced tokens, and parts it into chunks.
func (a *answer) say(produced int64) {
	s := a.script
	visible := max(produced-s.Reasoning, 0)
	switch {
	case s.Size >= 0:
		a.text = a.speech.first(int(min(s.Size, visible*4)))
		visible = int64(len(a.text))
	default:
		a.words = visible
		a.text = a.speech.first(a.speech.end(visible))
	}
	if visible == 0 {
		return
	}
	a.chunks = int(min(visible, 1000))
	if s.Chunks >= 0 {
		a.chunks = int(min(visible, max(s.Chunks, 1)))
	}
}

// piece is the text of the i-th chunk.
func (a *answer) piece(i int) string {
	if i == 1 && a.script.Big > 0 {
		return a.speech.first(int(a.script.Big))
	}
	return a.text[a.place(i):a.place(i+1)]
}

// place is where the i-th chunk begins in the text.
func (a *answer) place(i int) int {
	if a.words > 0 {
		return a.speech.end(int64(i) * a.words / int64(a.chunks))
	}
	return len(a.text) * i / a.chunks
}

// soFar is the usage after i chunks.
func (a *answer) soFar(i int) usage {
	u := a.usage
	u.output = u.output * int64(i) / int64(max(a.chunks, 1))
	u.reasoning = min(u.reasoning, u.output)
	return u
}

// reports tells whether a stream of the OpenAI APIs has usage at its end.
func (a *answer) reports() bool {
	return !a.script.NoUsage && (a.wantUsage || a.script.Unasked)
}

// appendID appends "prefix…" as a JSON string.
func (a *answer) appendID(b []byte, prefix string) []byte {
	b = append(b, '"')
	b = append(b, prefix...)
	b = strconv.AppendInt(b, a.id, 10)
	return append(b, '"')
}

// name is the finish reason in the words of an API: stop, length, tool call.
func (f finish) name(words [3]string) string { return words[f] }

// argumentsOpen and argumentsClose stand around the text where a tool is called
// with that, quoted as part of a JSON string.
const argumentsOpen, argumentsClose = `{\"text\":\"`, `\"}`

// argument is the i-th piece of a tool call's arguments, quoted.
func (a *answer) argument(b []byte, i int) []byte {
	if all := a.arguments; all != "" {
		return appendString(b, all[len(all)*i/a.chunks:len(all)*(i+1)/a.chunks])
	}
	b = append(b, '"')
	if i == 0 {
		b = append(b, argumentsOpen...)
	}
	b = append(b, a.piece(i)...)
	if i == a.chunks-1 {
		b = append(b, argumentsClose...)
	}
	return append(b, '"')
}

// allArguments is the whole of them, quoted.
func (a *answer) allArguments(b []byte) []byte {
	if a.arguments != "" {
		return appendString(b, a.arguments)
	}
	b = append(b, '"')
	b = append(b, argumentsOpen...)
	b = append(b, a.text...)
	b = append(b, argumentsClose...)
	return append(b, '"')
}

// argumentsObject is the whole of them as an object, with text in place of the
// answer's.
func (a *answer) argumentsObject(b []byte, text string) []byte {
	if a.arguments != "" {
		return append(b, a.arguments...)
	}
	b = append(b, `{"text":`...)
	b = appendString(b, text)
	return append(b, '}')
}
