package fakellm

import "strconv"

// messagesShape is Anthropic's messages.
type messagesShape struct{}

var messagesFinish = [3]string{"end_turn", "max_tokens", "tool_use"}

func (s messagesShape) document(b []byte, a *answer) []byte {
	b = s.preamble(b, a)
	if a.finish == toolCall {
		b = append(b, `{"type":"tool_use","id":`...)
		b = a.appendID(b, "toolu_sim")
		b = append(b, `,"name":`...)
		b = appendString(b, a.tool)
		b = append(b, `,"input":`...)
		b = a.argumentsObject(b, a.text)
		b = append(b, '}')
	} else {
		b = append(b, `{"type":"text","text":`...)
		b = appendString(b, a.text)
		b = append(b, '}')
	}
	b = append(b, `],"stop_reason":"`...)
	b = append(b, a.finish.name(messagesFinish)...)
	b = append(b, `","stop_sequence":null`...)
	if !a.script.NoUsage {
		b = append(b, `,"usage":`...)
		b = a.usage.messages(b, a.usage.output)
	}
	return append(b, '}')
}

func (messagesShape) preamble(b []byte, a *answer) []byte {
	b = append(b, `{"id":`...)
	b = a.appendID(b, "msg_sim")
	b = append(b, `,"type":"message","role":"assistant","model":`...)
	b = appendString(b, a.model)
	return append(b, `,"content":[`...)
}

// messages appends u in Anthropic's terms, where the input excludes what was
// read from and written to a cache.
func (u usage) messages(b []byte, output int64) []byte {
	b = append(b, `{"input_tokens":`...)
	b = strconv.AppendInt(b, max(u.input-u.cached-u.written, 0), 10)
	b = appendField(b, "cache_creation_input_tokens", u.written)
	b = appendField(b, "cache_read_input_tokens", u.cached)
	b = append(b, `,"cache_creation":{"ephemeral_5m_input_tokens":`...)
	b = strconv.AppendInt(b, u.written, 10)
	b = append(b, `,"ephemeral_1h_input_tokens":0}`...)
	b = appendField(b, "output_tokens", output)
	if u.reasoning > 0 {
		b = append(b, `,"output_tokens_details":{"thinking_tokens":`...)
		b = strconv.AppendInt(b, u.reasoning, 10)
		b = append(b, '}')
	}
	return append(b, `,"service_tier":"standard"}`...)
}

func (s messagesShape) head(f *framing, a *answer) {
	f.open("message_start")
	f.buf = append(f.buf, `{"type":"message_start","message":`...)
	f.buf = s.preamble(f.buf, a)
	f.buf = append(f.buf, `],"stop_reason":null,"stop_sequence":null`...)
	if !a.script.NoUsage {
		f.buf = append(f.buf, `,"usage":`...)
		started := a.usage
		started.reasoning = 0
		f.buf = started.messages(f.buf, min(1, a.usage.output)) // a placeholder, as the API sends it
	}
	f.buf = append(f.buf, "}}"...)
	f.close()

	f.open("content_block_start")
	f.buf = append(f.buf, `{"type":"content_block_start","index":0,"content_block":`...)
	if a.finish == toolCall {
		f.buf = append(f.buf, `{"type":"tool_use","id":`...)
		f.buf = a.appendID(f.buf, "toolu_sim")
		f.buf = append(f.buf, `,"name":`...)
		f.buf = appendString(f.buf, a.tool)
		f.buf = append(f.buf, `,"input":{}}}`...)
	} else {
		f.buf = append(f.buf, `{"type":"text","text":""}}`...)
	}
	f.close()

	f.open("ping")
	f.buf = append(f.buf, `{"type":"ping"}`...)
	f.close()
}

func (messagesShape) delta(f *framing, a *answer, i int) {
	f.open("content_block_delta")
	f.buf = append(f.buf, `{"type":"content_block_delta","index":0,"delta":{"type":`...)
	if a.finish == toolCall {
		f.buf = append(f.buf, `"input_json_delta","partial_json":`...)
		f.buf = a.argument(f.buf, i)
	} else {
		f.buf = append(f.buf, `"text_delta","text":`...)
		f.buf = appendString(f.buf, a.piece(i))
	}
	f.buf = append(f.buf, "}}"...)
	f.close()
}

func (messagesShape) tail(f *framing, a *answer) {
	f.open("content_block_stop")
	f.buf = append(f.buf, `{"type":"content_block_stop","index":0}`...)
	f.close()

	f.open("message_delta")
	f.buf = append(f.buf, `{"type":"message_delta","delta":{"stop_reason":"`...)
	f.buf = append(f.buf, a.finish.name(messagesFinish)...)
	f.buf = append(f.buf, `","stop_sequence":null}`...)
	if !a.script.NoUsage {
		// The input side is repeated: counts are cumulative.
		f.buf = append(f.buf, `,"usage":`...)
		f.buf = a.usage.messages(f.buf, a.usage.output)
	}
	f.buf = append(f.buf, '}')
	f.close()

	if a.script.NoDone {
		return
	}
	f.open("message_stop")
	f.buf = append(f.buf, `{"type":"message_stop"}`...)
	f.close()
}

func (messagesShape) broken(f *framing, _ *answer) {
	f.open("error")
	f.buf = anthropicFailure(f.buf, fault{status: 529, message: "Overloaded"})
	f.close()
}
