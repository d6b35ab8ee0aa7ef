package fakellm

import "strconv"

// generateShape is Gemini's generateContent.
type generateShape struct{}

var generateFinish = [3]string{"STOP", "MAX_TOKENS", "STOP"}

func (s generateShape) document(b []byte, a *answer) []byte {
	b = append(b, `{"candidates":[`...)
	for i := range a.n {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.candidate(b, a, i, a.text, a.finish.name(generateFinish))
	}
	return s.end(append(b, ']'), a, a.usage)
}

func (generateShape) candidate(b []byte, a *answer, i int64, text, finish string) []byte {
	b = append(b, `{"content":{"parts":[`...)
	if a.finish == toolCall {
		b = append(b, `{"functionCall":{"name":`...)
		b = appendString(b, a.tool)
		b = append(b, `,"args":`...)
		b = a.argumentsObject(b, text)
		b = append(b, "}}"...)
	} else {
		b = append(b, `{"text":`...)
		b = appendString(b, text)
		b = append(b, '}')
	}
	b = append(b, `],"role":"model"}`...)
	if finish != "" {
		b = append(b, `,"finishReason":"`...)
		b = append(b, finish...)
		b = append(b, '"')
	}
	b = appendField(b, "index", i)
	return append(b, '}')
}

func (generateShape) end(b []byte, a *answer, u usage) []byte {
	if !a.script.NoUsage {
		b = append(b, `,"usageMetadata":`...)
		b = u.generate(b)
	}
	b = append(b, `,"modelVersion":`...)
	b = appendString(b, a.model)
	b = append(b, `,"responseId":`...)
	b = a.appendID(b, "sim")
	return append(b, '}')
}

// generate appends u in Gemini's terms, where the candidates exclude thoughts.
func (u usage) generate(b []byte) []byte {
	b = append(b, `{"promptTokenCount":`...)
	b = strconv.AppendInt(b, u.input, 10)
	if u.output > u.reasoning {
		b = appendField(b, "candidatesTokenCount", u.output-u.reasoning)
	}
	b = appendField(b, "totalTokenCount", u.input+u.output)
	if u.cached > 0 {
		b = appendField(b, "cachedContentTokenCount", u.cached)
	}
	b = append(b, `,"promptTokensDetails":[{"modality":"TEXT","tokenCount":`...)
	b = strconv.AppendInt(b, u.input, 10)
	b = append(b, "}]"...)
	if u.reasoning > 0 {
		b = appendField(b, "thoughtsTokenCount", u.reasoning)
	}
	return append(b, '}')
}

func (generateShape) head(*framing, *answer) {}

func (s generateShape) delta(f *framing, a *answer, i int) {
	if a.finish == toolCall {
		return // a call comes whole
	}
	s.chunk(f, a, a.piece(i), "", a.soFar(i+1))
}

func (s generateShape) tail(f *framing, a *answer) {
	text := ""
	if a.finish == toolCall {
		text = a.text
	}
	s.chunk(f, a, text, a.finish.name(generateFinish), a.usage)
}

func (s generateShape) chunk(f *framing, a *answer, text, finish string, u usage) {
	f.open("")
	f.buf = append(f.buf, `{"candidates":[`...)
	for i := range a.n {
		if i > 0 {
			f.buf = append(f.buf, ',')
		}
		f.buf = s.candidate(f.buf, a, i, text, finish)
	}
	f.buf = s.end(append(f.buf, ']'), a, u)
	f.close()
}

func (generateShape) broken(f *framing, _ *answer) {
	f.open("")
	f.buf = geminiFailure(f.buf, fault{status: 503, message: "The model is overloaded. Please try again later."})
	f.close()
}
