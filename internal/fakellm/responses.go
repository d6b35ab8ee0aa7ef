package fakellm

import "strconv"

// responsesShape is OpenAI's responses.
type responsesShape struct {
	sequence int // of the next event of a stream
}

// document appends the finished response.
func (s *responsesShape) document(b []byte, a *answer) []byte {
	return s.response(b, a, a.status())
}

func (a *answer) status() string {
	if a.finish == length {
		return "incomplete"
	}
	return "completed"
}

// response appends the response object as it is in the given status.
func (s *responsesShape) response(b []byte, a *answer, status string) []byte {
	final := status == "completed" || status == "incomplete"
	b = append(b, `{"id":`...)
	b = a.appendID(b, "resp_sim")
	b = append(b, `,"object":"response"`...)
	b = appendField(b, "created_at", a.created)
	b = append(b, `,"status":"`...)
	b = append(b, status...)
	b = append(b, `","background":`...)
	b = strconv.AppendBool(b, a.background)
	b = append(b, `,"error":`...)
	if status == "failed" {
		b = append(b, `{"code":"server_error","message":"The server had an error processing your request. Sorry about that!"}`...)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"incomplete_details":`...)
	if status == "incomplete" {
		b = append(b, `{"reason":"max_output_tokens"}`...)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"instructions":null,"max_output_tokens":`...)
	if a.output < 0 {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, a.output, 10)
	}
	b = append(b, `,"model":`...)
	b = appendString(b, a.model)
	b = append(b, `,"output":[`...)
	if final {
		b = s.item(b, a, status)
	}
	b = append(b, `],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"service_tier":"default",`+
		`"store":true,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":`...)
	if final && !a.script.NoUsage {
		b = a.usage.responses(b)
	} else {
		b = append(b, "null"...)
	}
	return append(b, `,"user":null,"metadata":{}}`...)
}

// item appends the one output item, whole or still without its text.
func (s *responsesShape) item(b []byte, a *answer, status string) []byte {
	if a.finish == toolCall {
		b = append(b, `{"id":`...)
		b = a.appendID(b, "fc_sim")
		b = append(b, `,"type":"function_call","status":"`...)
		b = append(b, status...)
		b = append(b, `","call_id":`...)
		b = a.appendID(b, "call_sim")
		b = append(b, `,"name":`...)
		b = appendString(b, a.tool)
		b = append(b, `,"arguments":`...)
		if status == "in_progress" {
			b = append(b, `""`...)
		} else {
			b = a.allArguments(b)
		}
		return append(b, '}')
	}
	b = append(b, `{"id":`...)
	b = a.appendID(b, "msg_sim")
	b = append(b, `,"type":"message","status":"`...)
	b = append(b, status...)
	b = append(b, `","role":"assistant","content":[`...)
	if status != "in_progress" {
		b = textPart(b, a.text)
	}
	return append(b, "]}"...)
}

func textPart(b []byte, text string) []byte {
	b = append(b, `{"type":"output_text","annotations":[],"logprobs":[],"text":`...)
	b = appendString(b, text)
	return append(b, '}')
}

// responses appends u as the object that responses have.
func (u usage) responses(b []byte) []byte {
	b = append(b, `{"input_tokens":`...)
	b = strconv.AppendInt(b, u.input, 10)
	b = append(b, `,"input_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, u.cached, 10)
	b = appendField(b, "cache_write_tokens", u.written)
	b = append(b, '}')
	b = appendField(b, "output_tokens", u.output)
	b = append(b, `,"output_tokens_details":{"reasoning_tokens":`...)
	b = strconv.AppendInt(b, u.reasoning, 10)
	b = append(b, '}')
	b = appendField(b, "total_tokens", u.input+u.output)
	return append(b, '}')
}

// open begins an event of the given type.
func (s *responsesShape) open(f *framing, kind string) {
	f.open(kind)
	f.buf = append(f.buf, `{"type":"`...)
	f.buf = append(f.buf, kind...)
	f.buf = append(f.buf, '"')
	f.buf = appendField(f.buf, "sequence_number", int64(s.sequence))
	s.sequence++
}

// whole sends an event with the response object.
func (s *responsesShape) whole(f *framing, a *answer, kind, status string) {
	s.open(f, kind)
	f.buf = append(f.buf, `,"response":`...)
	f.buf = s.response(f.buf, a, status)
	f.buf = append(f.buf, '}')
	f.close()
}

// within begins an event about the content of the item.
func (s *responsesShape) within(f *framing, a *answer, kind string) {
	s.open(f, kind)
	f.buf = append(f.buf, `,"item_id":`...)
	if a.finish == toolCall {
		f.buf = a.appendID(f.buf, "fc_sim")
		f.buf = append(f.buf, `,"output_index":0`...)
		return
	}
	f.buf = a.appendID(f.buf, "msg_sim")
	f.buf = append(f.buf, `,"output_index":0,"content_index":0`...)
}

func (s *responsesShape) head(f *framing, a *answer) {
	s.whole(f, a, "response.created", "in_progress")
	s.whole(f, a, "response.in_progress", "in_progress")
	s.open(f, "response.output_item.added")
	f.buf = append(f.buf, `,"output_index":0,"item":`...)
	f.buf = s.item(f.buf, a, "in_progress")
	f.buf = append(f.buf, '}')
	f.close()
	if a.finish == toolCall {
		return
	}
	s.within(f, a, "response.content_part.added")
	f.buf = append(f.buf, `,"part":`...)
	f.buf = textPart(f.buf, "")
	f.buf = append(f.buf, '}')
	f.close()
}

func (s *responsesShape) delta(f *framing, a *answer, i int) {
	if a.finish == toolCall {
		s.within(f, a, "response.function_call_arguments.delta")
		f.buf = append(f.buf, `,"delta":`...)
		f.buf = a.argument(f.buf, i)
	} else {
		s.within(f, a, "response.output_text.delta")
		f.buf = append(f.buf, `,"delta":`...)
		f.buf = appendString(f.buf, a.piece(i))
		f.buf = append(f.buf, `,"logprobs":[]`...)
	}
	f.buf = append(f.buf, '}')
	f.close()
}

func (s *responsesShape) tail(f *framing, a *answer) {
	if a.finish == toolCall {
		s.within(f, a, "response.function_call_arguments.done")
		f.buf = append(f.buf, `,"arguments":`...)
		f.buf = a.allArguments(f.buf)
		f.buf = append(f.buf, '}')
		f.close()
	} else {
		s.textDone(f, a)
	}
	s.open(f, "response.output_item.done")
	f.buf = append(f.buf, `,"output_index":0,"item":`...)
	f.buf = s.item(f.buf, a, a.status())
	f.buf = append(f.buf, '}')
	f.close()
	if a.script.NoDone {
		return
	}
	s.whole(f, a, "response."+a.status(), a.status())
}

func (s *responsesShape) textDone(f *framing, a *answer) {
	s.within(f, a, "response.output_text.done")
	f.buf = append(f.buf, `,"text":`...)
	f.buf = appendString(f.buf, a.text)
	f.buf = append(f.buf, `,"logprobs":[]}`...)
	f.close()
	s.within(f, a, "response.content_part.done")
	f.buf = append(f.buf, `,"part":`...)
	f.buf = textPart(f.buf, a.text)
	f.buf = append(f.buf, '}')
	f.close()
}

func (s *responsesShape) broken(f *framing, a *answer) { s.whole(f, a, "response.failed", "failed") }
