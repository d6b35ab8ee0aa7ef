package fakellm

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strconv"
)

// converseShape is Bedrock's Converse.
type converseShape struct{}

var converseFinish = [3]string{"end_turn", "max_tokens", "tool_use"}

func (converseShape) document(b []byte, a *answer) []byte {
	b = append(b, `{"metrics":{"latencyMs":1},"output":{"message":{"content":[`...)
	if a.finish == toolCall {
		b = append(b, `{"toolUse":{"toolUseId":`...)
		b = a.appendID(b, "tooluse_sim")
		b = append(b, `,"name":`...)
		b = appendString(b, a.tool)
		b = append(b, `,"input":`...)
		b = a.argumentsObject(b, a.text)
		b = append(b, "}}"...)
	} else {
		b = append(b, `{"text":`...)
		b = appendString(b, a.text)
		b = append(b, '}')
	}
	b = append(b, `],"role":"assistant"}},"stopReason":"`...)
	b = append(b, a.finish.name(converseFinish)...)
	b = append(b, '"')
	if !a.script.NoUsage {
		b = append(b, `,"usage":`...)
		b = a.usage.converse(b)
	}
	return append(b, '}')
}

// converse appends u in Bedrock's terms, where the input excludes what was read
// from and written to a cache.
func (u usage) converse(b []byte) []byte {
	b = append(b, `{"inputTokens":`...)
	b = strconv.AppendInt(b, max(u.input-u.cached-u.written, 0), 10)
	b = appendField(b, "outputTokens", u.output)
	b = appendField(b, "totalTokens", u.input+u.output)
	b = appendField(b, "cacheReadInputTokens", u.cached)
	b = appendField(b, "cacheWriteInputTokens", u.written)
	return append(b, '}')
}

func (converseShape) head(f *framing, a *answer) {
	f.open("messageStart")
	f.buf = append(f.buf, `{"role":"assistant"}`...)
	f.close()
	if a.finish != toolCall {
		return
	}
	f.open("contentBlockStart")
	f.buf = append(f.buf, `{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":`...)
	f.buf = a.appendID(f.buf, "tooluse_sim")
	f.buf = append(f.buf, `,"name":`...)
	f.buf = appendString(f.buf, a.tool)
	f.buf = append(f.buf, "}}}"...)
	f.close()
}

func (converseShape) delta(f *framing, a *answer, i int) {
	f.open("contentBlockDelta")
	f.buf = append(f.buf, `{"contentBlockIndex":0,"delta":{`...)
	if a.finish == toolCall {
		f.buf = append(f.buf, `"toolUse":{"input":`...)
		f.buf = a.argument(f.buf, i)
		f.buf = append(f.buf, '}')
	} else {
		f.buf = append(f.buf, `"text":`...)
		f.buf = appendString(f.buf, a.piece(i))
	}
	f.buf = append(f.buf, `},"p":"abcdefgh"}`...)
	f.close()
}

func (converseShape) tail(f *framing, a *answer) {
	f.open("contentBlockStop")
	f.buf = append(f.buf, `{"contentBlockIndex":0}`...)
	f.close()
	f.open("messageStop")
	f.buf = append(f.buf, `{"stopReason":"`...)
	f.buf = append(f.buf, a.finish.name(converseFinish)...)
	f.buf = append(f.buf, `"}`...)
	f.close()
	if a.script.NoUsage {
		return
	}
	f.open("metadata") // behind the end of the message, as the API sends it
	f.buf = append(f.buf, `{"metrics":{"latencyMs":1},"usage":`...)
	f.buf = a.usage.converse(f.buf)
	f.buf = append(f.buf, '}')
	f.close()
}

func (converseShape) broken(f *framing, _ *answer) { bedrockBroken(f) }

func bedrockBroken(f *framing) {
	f.exception("serviceUnavailableException")
	f.buf = append(f.buf, `{"message":"The service is overloaded."}`...)
	f.close()
}

// invokeShape is Bedrock's Invoke of an Anthropic model: that vendor's own
// documents, streamed as events in base64.
type invokeShape struct{ messagesShape }

func (s invokeShape) head(f *framing, a *answer)   { s.wrap(f, a, s.messagesShape.head) }
func (s invokeShape) tail(f *framing, a *answer)   { s.wrap(f, a, s.messagesShape.tail) }
func (s invokeShape) broken(f *framing, _ *answer) { bedrockBroken(f) }
func (s invokeShape) delta(f *framing, a *answer, i int) {
	s.wrap(f, a, func(inner *framing, a *answer) { s.messagesShape.delta(inner, a, i) })
}

// wrap says the vendor's events, each in a chunk; the last has the counts that
// Bedrock adds.
func (invokeShape) wrap(f *framing, a *answer, say func(*framing, *answer)) {
	inner := framing{script: a.script, wire: jsonLines}
	say(&inner, a)
	for event := range bytes.SplitSeq(bytes.TrimSuffix(inner.buf, []byte("\n")), []byte("\n")) {
		if string(event) == `{"type":"message_stop"}` && !a.script.NoUsage {
			event = append(event[:len(event)-1:len(event)-1], `,"amazon-bedrock-invocationMetrics":{"inputTokenCount":`...)
			event = strconv.AppendInt(event, max(a.usage.input-a.usage.cached-a.usage.written, 0), 10)
			event = appendField(event, "outputTokenCount", a.usage.output)
			event = append(event, "}}"...)
		}
		f.open("chunk")
		f.buf = append(f.buf, `{"bytes":"`...)
		f.buf = base64.StdEncoding.AppendEncode(f.buf, event)
		f.buf = append(f.buf, `"}`...)
		f.close()
	}
}

// appendFrame appends a frame of AWS's event stream: lengths, a checksum of
// them, headers that are all strings, the payload, and a checksum of all.
func appendFrame(b []byte, headers [][2]string, payload []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, 12)...)
	for _, h := range headers {
		b = append(b, byte(len(h[0])))
		b = append(b, h[0]...)
		b = append(b, 7) // a string
		b = binary.BigEndian.AppendUint16(b, uint16(len(h[1])))
		b = append(b, h[1]...)
	}
	head := len(b) - start - 12
	b = append(b, payload...)
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start+4))
	binary.BigEndian.PutUint32(b[start+4:], uint32(head))
	binary.BigEndian.PutUint32(b[start+8:], crc32.ChecksumIEEE(b[start:start+8]))
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[start:]))
}
