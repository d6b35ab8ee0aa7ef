package fakellm

import "strconv"

// cohereShape is Cohere's chat.
type cohereShape struct{}

var cohereFinish = [3]string{"COMPLETE", "MAX_TOKENS", "TOOL_CALL"}

func (s cohereShape) document(b []byte, a *answer) []byte {
	b = append(b, `{"id":`...)
	b = a.appendID(b, "sim")
	b = append(b, `,"finish_reason":"`...)
	b = append(b, a.finish.name(cohereFinish)...)
	b = append(b, `","message":{"role":"assistant",`...)
	if a.finish == toolCall {
		b = append(b, `"tool_plan":"","tool_calls":[`...)
		b = s.call(b, a, a.allArguments(nil))
		b = append(b, ']')
	} else {
		b = append(b, `"content":[{"type":"text","text":`...)
		b = appendString(b, a.text)
		b = append(b, "}]"...)
	}
	b = append(b, '}')
	return append(s.usage(b, a), '}')
}

// call appends a tool call with its arguments, a JSON string.
func (cohereShape) call(b []byte, a *answer, arguments []byte) []byte {
	b = append(b, `{"id":`...)
	b = a.appendID(b, "call_sim")
	b = append(b, `,"type":"function","function":{"name":`...)
	b = appendString(b, a.tool)
	b = append(b, `,"arguments":`...)
	b = append(b, arguments...)
	return append(b, "}}"...)
}

// usage appends both counts that Cohere tells: what is paid, and what the model
// read with its template.
func (cohereShape) usage(b []byte, a *answer) []byte {
	if a.script.NoUsage {
		return b
	}
	b = append(b, `,"usage":{"billed_units":{"input_tokens":`...)
	b = strconv.AppendInt(b, a.usage.input, 10)
	b = appendField(b, "output_tokens", a.usage.output)
	b = append(b, `},"tokens":{"input_tokens":`...)
	b = strconv.AppendInt(b, a.usage.input+500, 10)
	b = appendField(b, "output_tokens", a.usage.output+3)
	return append(b, "}}"...)
}

func (s cohereShape) head(f *framing, a *answer) {
	f.open("message-start")
	f.buf = append(f.buf, `{"id":`...)
	f.buf = a.appendID(f.buf, "sim")
	f.buf = append(f.buf, `,"type":"message-start","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}}`...)
	f.close()
	if a.finish == toolCall {
		f.open("tool-call-start")
		f.buf = append(f.buf, `{"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":`...)
		f.buf = s.call(f.buf, a, []byte(`""`))
		f.buf = append(f.buf, "}}}"...)
		f.close()
		return
	}
	f.open("content-start")
	f.buf = append(f.buf, `{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}`...)
	f.close()
}

func (cohereShape) delta(f *framing, a *answer, i int) {
	if a.finish == toolCall {
		f.open("tool-call-delta")
		f.buf = append(f.buf, `{"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":`...)
		f.buf = a.argument(f.buf, i)
		f.buf = append(f.buf, "}}}}}"...)
	} else {
		f.open("content-delta")
		f.buf = append(f.buf, `{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":`...)
		f.buf = appendString(f.buf, a.piece(i))
		f.buf = append(f.buf, "}}}}"...)
	}
	f.close()
}

func (s cohereShape) tail(f *framing, a *answer) {
	end := "content-end"
	if a.finish == toolCall {
		end = "tool-call-end"
	}
	f.open(end)
	f.buf = append(f.buf, `{"type":"`...)
	f.buf = append(f.buf, end...)
	f.buf = append(f.buf, `","index":0}`...)
	f.close()
	if a.script.NoDone {
		return
	}
	f.open("message-end")
	f.buf = append(f.buf, `{"type":"message-end","delta":{"finish_reason":"`...)
	f.buf = append(f.buf, a.finish.name(cohereFinish)...)
	f.buf = append(f.buf, '"')
	f.buf = append(s.usage(f.buf, a), "}}"...)
	f.close()
}

func (cohereShape) broken(f *framing, _ *answer) {
	f.open("message-end")
	f.buf = append(f.buf, `{"type":"message-end","delta":{"finish_reason":"ERROR","error":"internal server error"}}`...)
	f.close()
}

// cohereEmbedShape is Cohere's embeddings and rerank, of which the latter bills
// searches and no tokens.
type cohereEmbedShape struct{}

func (cohereEmbedShape) document(b []byte, a *answer) []byte {
	b = append(b, `{"id":`...)
	b = a.appendID(b, "sim")
	if a.op == cohereRerank {
		b = append(b, `,"results":[`...)
		for i := range a.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"index":`...)
			b = strconv.AppendInt(b, i, 10)
			b = append(b, `,"relevance_score":0.5}`...)
		}
		return append(b, `],"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}}}`...)
	}
	b = append(b, `,"response_type":"embeddings_by_type","texts":[],"embeddings":{"float":[`...)
	for i := range a.items {
		if i > 0 {
			b = append(b, ',')
		}
		b = embedding(b, i, 0, false)
	}
	b = append(b, `]},"meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":`...)
	b = strconv.AppendInt(b, a.usage.input, 10)
	return append(b, "}}}"...)
}
