package fakellm

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
)

// shape is how the operation of a is put into words.
func (p *Provider) shape(a *answer) shape {
	switch a.op {
	case chat:
		return chatShape{}
	case completion:
		return completionShape{}
	case responses:
		return &keptShape{shelf: p.stored}
	case storedResponse, cancelResponse:
		return &shelfShape{shelf: p.stored}
	case messages:
		return messagesShape{}
	case generate:
		return generateShape{}
	case converse:
		return converseShape{}
	case invoke:
		return invokeShape{}
	case cohereChat:
		return cohereShape{}
	case cohereEmbed, cohereRerank:
		return cohereEmbedShape{}
	case ollamaChat, ollamaGenerate:
		return ollamaShape{}
	case ollamaEmbed:
		return ollamaEmbedShape{}
	case embeddings:
		return embeddingsShape{}
	case embedContent, batchEmbed:
		return embedShape{}
	case moderations:
		return moderationsShape{}
	case pictures:
		return picturesShape{}
	case speech:
		return speechShape{}
	case transcripts:
		return transcriptShape{}
	case listModels, oneModel:
		return modelsShape{}
	default:
		return countShape{}
	}
}

// vector is the length of an embedding without dimensions.
const vector = 8

// embedding appends the i-th vector of an answer: fixed numbers that float32
// holds exactly.
func embedding(b []byte, i, dimensions int64, encoded bool) []byte {
	if dimensions <= 0 || dimensions > 4096 {
		dimensions = vector
	}
	value := func(k int64) float32 { return float32((i+k)%16-8) / 16 }
	if encoded {
		raw := make([]byte, 0, 4*dimensions)
		for k := range dimensions {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(value(k)))
		}
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, raw)
		return append(b, '"')
	}
	b = append(b, '[')
	for k := range dimensions {
		if k > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(value(k)), 'f', -1, 32)
	}
	return append(b, ']')
}

// embeddingsShape is OpenAI's embeddings.
type embeddingsShape struct{}

func (embeddingsShape) document(b []byte, a *answer) []byte {
	b = append(b, `{"object":"list","data":[`...)
	for i := range a.items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"object":"embedding","index":`...)
		b = strconv.AppendInt(b, i, 10)
		b = append(b, `,"embedding":`...)
		b = embedding(b, i, a.dimensions, a.base64)
		b = append(b, '}')
	}
	b = append(b, `],"model":`...)
	b = appendString(b, a.model)
	if !a.script.NoUsage {
		b = append(b, `,"usage":{"prompt_tokens":`...)
		b = strconv.AppendInt(b, a.usage.input, 10)
		b = appendField(b, "total_tokens", a.usage.input)
		b = append(b, '}')
	}
	return append(b, '}')
}

// embedShape is Gemini's embedContent and batchEmbedContents. They have no
// usage.
type embedShape struct{}

func (embedShape) document(b []byte, a *answer) []byte {
	if a.op == embedContent {
		b = append(b, `{"embedding":{"values":`...)
		b = embedding(b, 0, 0, false)
		return append(b, "}}"...)
	}
	b = append(b, `{"embeddings":[`...)
	for i := range a.items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"values":`...)
		b = embedding(b, i, 0, false)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// moderationsShape is OpenAI's moderations. They are free.
type moderationsShape struct{}

func (moderationsShape) document(b []byte, a *answer) []byte {
	b = append(b, `{"id":`...)
	b = a.appendID(b, "modr-sim")
	b = append(b, `,"model":`...)
	b = appendString(b, a.model)
	b = append(b, `,"results":[`...)
	for i := range a.items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"flagged":false,"categories":{"hate":false,"violence":false},"category_scores":{"hate":0.001,"violence":0.002}}`...)
	}
	return append(b, "]}"...)
}

// modelsShape lists one model, or shows the one that was asked for.
type modelsShape struct{}

func (modelsShape) document(b []byte, a *answer) []byte {
	one := func(b []byte, id string) []byte {
		b = append(b, `{"id":`...)
		b = appendString(b, id)
		return append(b, `,"object":"model","created":1790000000,"owned_by":"sim"}`...)
	}
	if a.op == oneModel {
		return one(b, a.model)
	}
	b = append(b, `{"object":"list","data":[`...)
	return append(one(b, "sim"), "]}"...)
}

// countShape is the counting endpoints of all APIs.
type countShape struct{}

func (countShape) document(b []byte, a *answer) []byte {
	switch a.op {
	case countGenerate:
		b = append(b, `{"totalTokens":`...)
	case countResponse:
		b = append(b, `{"object":"response.input_tokens","input_tokens":`...)
	default:
		b = append(b, `{"input_tokens":`...)
	}
	b = strconv.AppendInt(b, a.input(), 10)
	return append(b, '}')
}
