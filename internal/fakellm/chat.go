package fakellm

import "strconv"

// chatShape is OpenAI's chat completions.
type chatShape struct{}

var chatFinish = [3]string{"stop", "length", "tool_calls"}

func (chatShape) document(b []byte, a *answer) []byte {
	b = append(b, `{"id":`...)
	b = a.appendID(b, "chatcmpl-sim")
	b = append(b, `,"object":"chat.completion"`...)
	b = appendField(b, "created", a.created)
	b = append(b, `,"model":`...)
	b = appendString(b, a.model)
	b = append(b, `,"choices":[`...)
	for i := range a.n {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, i, 10)
		b = append(b, `,"message":{"role":"assistant","content":`...)
		if a.finish == toolCall {
			b = append(b, `null,"refusal":null,"annotations":[],"tool_calls":[{"id":`...)
			b = a.appendID(b, "call_sim")
			b = append(b, `,"type":"function","function":{"name":`...)
			b = appendString(b, a.tool)
			b = append(b, `,"arguments":`...)
			b = a.allArguments(b)
			b = append(b, "}}]"...)
		} else {
			b = appendString(b, a.text)
			b = append(b, `,"refusal":null,"annotations":[]`...)
		}
		b = append(b, `},"logprobs":null,"finish_reason":"`...)
		b = append(b, a.finish.name(chatFinish)...)
		b = append(b, `"}`...)
	}
	b = append(b, ']')
	if !a.script.NoUsage {
		b = append(b, `,"usage":`...)
		b = a.usage.chat(b)
	}
	return append(b, `,"service_tier":"default","system_fingerprint":"fp_sim"}`...)
}

// chat appends u as the object that chat completions have.
func (u usage) chat(b []byte) []byte {
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, u.input, 10)
	b = appendField(b, "completion_tokens", u.output)
	b = appendField(b, "total_tokens", u.input+u.output)
	b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, u.cached, 10)
	b = append(b, `,"audio_tokens":0`...)
	if u.written > 0 {
		b = appendField(b, "cache_write_tokens", u.written)
	}
	b = append(b, `},"completion_tokens_details":{"reasoning_tokens":`...)
	b = strconv.AppendInt(b, u.reasoning, 10)
	return append(b, `,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`...)
}

// open begins a chunk of the given choice; its delta is to follow.
func (chatShape) open(f *framing, a *answer, choice int64) {
	f.open("")
	f.buf = chatPreamble(f.buf, a)
	f.buf = append(f.buf, `{"index":`...)
	f.buf = strconv.AppendInt(f.buf, choice, 10)
	f.buf = append(f.buf, `,"delta":{`...)
}

func chatPreamble(b []byte, a *answer) []byte {
	b = append(b, `{"id":`...)
	b = a.appendID(b, "chatcmpl-sim")
	b = append(b, `,"object":"chat.completion.chunk"`...)
	b = appendField(b, "created", a.created)
	b = append(b, `,"model":`...)
	b = appendString(b, a.model)
	return append(b, `,"service_tier":"default","system_fingerprint":"fp_sim","choices":[`...)
}

// close ends a chunk after its delta. A usage of nil is null where usage was
// asked for, and absent where it was not.
func (chatShape) close(f *framing, a *answer, finish string, u *usage) {
	f.buf = append(f.buf, `},"logprobs":null,"finish_reason":`...)
	f.buf = appendNullable(f.buf, finish)
	f.buf = append(f.buf, "}]"...)
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

func (c chatShape) head(f *framing, a *answer) {
	for choice := range a.n {
		c.open(f, a, choice)
		f.buf = append(f.buf, `"role":"assistant","content":`...)
		if a.finish == toolCall {
			f.buf = append(f.buf, `null,"tool_calls":[{"index":0,"id":`...)
			f.buf = a.appendID(f.buf, "call_sim")
			f.buf = append(f.buf, `,"type":"function","function":{"name":`...)
			f.buf = appendString(f.buf, a.tool)
			f.buf = append(f.buf, `,"arguments":""}}]`...)
		} else {
			f.buf = append(f.buf, `"","refusal":null`...)
		}
		c.close(f, a, "", a.running(0))
	}
}

func (c chatShape) delta(f *framing, a *answer, i int) {
	for choice := range a.n {
		c.open(f, a, choice)
		if a.finish == toolCall {
			f.buf = append(f.buf, `"tool_calls":[{"index":0,"function":{"arguments":`...)
			f.buf = a.argument(f.buf, i)
			f.buf = append(f.buf, "}}]"...)
		} else {
			f.buf = append(f.buf, `"content":`...)
			f.buf = appendString(f.buf, a.piece(i))
		}
		c.close(f, a, "", a.running(i+1))
	}
}

func (c chatShape) tail(f *framing, a *answer) {
	for choice := range a.n {
		u := a.running(a.chunks)
		if a.script.OnFinish && a.reports() && choice == a.n-1 {
			u = &a.usage
		}
		c.open(f, a, choice)
		c.close(f, a, a.finish.name(chatFinish), u)
	}
	if a.reports() && !a.script.OnFinish {
		f.open("")
		f.buf = chatPreamble(f.buf, a)
		f.buf = append(f.buf, `],"usage":`...)
		f.buf = a.usage.chat(f.buf)
		f.buf = append(f.buf, '}')
		f.close()
	}
	doneEvent(f, a)
}

func (chatShape) broken(f *framing, _ *answer) { openaiBroken(f) }

// running is the usage so far, if the script wants it on every chunk.
func (a *answer) running(i int) *usage {
	if !a.script.Continuous || !a.reports() {
		return nil
	}
	u := a.soFar(i)
	return &u
}

func doneEvent(f *framing, a *answer) {
	if a.script.NoDone {
		return
	}
	f.open("")
	f.buf = append(f.buf, "[DONE]"...)
	f.close()
}

var serverError = fault{status: 500, message: "The server had an error processing your request. Sorry about that!"}

func openaiBroken(f *framing) {
	f.open("")
	f.buf = openaiFailure(f.buf, serverError)
	f.close()
}
