package fakellm

import (
	"strconv"
	"time"
)

// ollamaShape is Ollama's chat and generate: every line of a stream is a
// document of the same shape, and the last has the counts.
type ollamaShape struct{}

var ollamaFinish = [3]string{"stop", "length", "stop"}

func (s ollamaShape) document(b []byte, a *answer) []byte {
	return s.end(s.say(b, a, a.text), a)
}

// say begins a document with a piece of the text, or with the tool call.
func (ollamaShape) say(b []byte, a *answer, text string) []byte {
	b = append(b, `{"model":`...)
	b = appendString(b, a.model)
	b = append(b, `,"created_at":"`...)
	b = time.Unix(a.created, 0).UTC().AppendFormat(b, time.RFC3339)
	if a.op == ollamaGenerate {
		b = append(b, `","response":`...)
		return appendString(b, text)
	}
	b = append(b, `","message":{"role":"assistant","content":`...)
	if a.finish != toolCall || text == "" {
		b = appendString(b, text)
		return append(b, '}')
	}
	b = append(b, `"","tool_calls":[{"function":{"name":`...)
	b = appendString(b, a.tool)
	b = append(b, `,"arguments":`...)
	b = a.argumentsObject(b, text)
	return append(b, "}}]}"...)
}

// end ends the last document. Counts of 0 are left out, as the server does.
func (ollamaShape) end(b []byte, a *answer) []byte {
	b = append(b, `,"done":true,"done_reason":"`...)
	b = append(b, a.finish.name(ollamaFinish)...)
	b = append(b, `","total_duration":4000000,"load_duration":1000000`...)
	if a.script.NoUsage {
		return append(b, '}')
	}
	if a.usage.input > 0 {
		b = appendField(b, "prompt_eval_count", a.usage.input)
	}
	if a.usage.output > 0 {
		b = appendField(b, "eval_count", a.usage.output)
	}
	return append(b, '}')
}

func (ollamaShape) head(*framing, *answer) {}

func (s ollamaShape) delta(f *framing, a *answer, i int) {
	if a.finish == toolCall {
		return // a call comes whole
	}
	s.line(f, a, a.piece(i))
}

// line is a document that is not the last.
func (s ollamaShape) line(f *framing, a *answer, text string) {
	f.open("")
	f.buf = append(s.say(f.buf, a, text), `,"done":false}`...)
	f.close()
}

func (s ollamaShape) tail(f *framing, a *answer) {
	if a.finish == toolCall {
		s.line(f, a, a.text)
	}
	if a.script.NoDone {
		return
	}
	f.open("")
	f.buf = s.end(s.say(f.buf, a, ""), a)
	f.close()
}

func (ollamaShape) broken(f *framing, _ *answer) {
	f.open("")
	f.buf = append(f.buf, `{"error":"model runner has unexpectedly stopped"}`...)
	f.close()
}

// ollamaEmbedShape is Ollama's embeddings.
type ollamaEmbedShape struct{}

func (ollamaEmbedShape) document(b []byte, a *answer) []byte {
	b = append(b, `{"model":`...)
	b = appendString(b, a.model)
	b = append(b, `,"embeddings":[`...)
	for i := range a.items {
		if i > 0 {
			b = append(b, ',')
		}
		b = embedding(b, i, 0, false)
	}
	b = append(b, `],"total_duration":1000000,"load_duration":1000000,"prompt_eval_count":`...)
	b = strconv.AppendInt(b, a.usage.input, 10)
	return append(b, '}')
}
