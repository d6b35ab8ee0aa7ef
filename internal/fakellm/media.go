package fakellm

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime/multipart"
)

// form takes the fields of a multipart form as if they were members of a body,
// and its files as a prompt. Its boundary is what it begins with.
func (q *request) form(body []byte) error {
	line, _, _ := bytes.Cut(body, []byte("\r\n"))
	parts := multipart.NewReader(bytes.NewReader(body), string(bytes.TrimPrefix(line, []byte("--"))))
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return err
		}
		switch name := part.FormName(); {
		case part.FileName() != "":
			q.prompt += int64(len(value))
		case name == "model" || name == "prompt":
			q.member(name, appendString(nil, string(value)))
		default:
			q.member(name, value)
		}
	}
}

// picturesShape is OpenAI's images: one pixel for each that was asked for.
type picturesShape struct{}

// pixel is a picture in the format PNG.
var pixel = base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00\x3a\x7e\x9b\x55" +
	"\x00\x00\x00\nIDATx\x9cc`\x00\x00\x00\x02\x00\x01\x48\xaf\xa4\x71\x00\x00\x00\x00IEND\xaeB`\x82"))

func (picturesShape) document(b []byte, a *answer) []byte {
	b = append(b, `{"created":1790000000,"data":[`...)
	for i := range a.n {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, `{"b64_json":"`...), pixel...), `"}`...)
	}
	return append(a.mediaUsage(append(b, ']'), "input_tokens_details"), '}')
}

// transcriptShape is OpenAI's transcriptions and translations.
type transcriptShape struct{}

func (transcriptShape) document(b []byte, a *answer) []byte {
	b = appendString(append(b, `{"text":`...), a.text)
	return append(a.mediaUsage(b, "input_token_details"), '}')
}

// mediaUsage appends the usage of pictures and sound, whose details of the input
// have two names.
func (a *answer) mediaUsage(b []byte, details string) []byte {
	if a.script.NoUsage {
		return b
	}
	b = append(b, `,"usage":{"type":"tokens"`...)
	b = appendField(b, "input_tokens", a.usage.input)
	b = appendField(b, "output_tokens", a.usage.output)
	b = appendField(b, "total_tokens", a.usage.input+a.usage.output)
	b = append(append(append(b, `,"`...), details...), `":{"text_tokens":0}`...)
	return append(b, '}')
}

// speechShape is OpenAI's speech: its text, behind a mark that players know.
type speechShape struct{}

func (speechShape) document(b []byte, a *answer) []byte {
	return append(append(b, "ID3\x04\x00\x00\x00\x00\x00\x00"...), a.text...)
}

func (speechShape) contentType() string { return "audio/mpeg" }
