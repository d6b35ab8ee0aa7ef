package openai

import (
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
	"llmgw/internal/fault"
)

// form is a multipart form whose file comes first.
func form(fields ...string) []byte {
	var b strings.Builder
	b.WriteString("preamble\r\n--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFF\r\n--Bx name=\"x\"\r\n\r\n")
	for i := 0; i < len(fields); i += 2 {
		b.WriteString("\r\n--B\r\nContent-Disposition: form-data; name=\"" + fields[i] + "\"\r\n\r\n" + fields[i+1])
	}
	b.WriteString("\r\n--B--\r\n")
	return []byte(b.String())
}

func formCall(body []byte) (*dialect.Call, error) {
	r, _ := dialecttest.Request(New(), "POST", "/v1/audio/transcriptions", dialect.Header{"Content-Type": {`multipart/form-data; boundary="B"`}}, body)
	return New().Parse(r)
}

func TestAFormIsReadPastItsFile(t *testing.T) {
	c, err := formCall(form("stream", "true", "model", "whisper-1", "user", "u", "n", "2"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Model != "whisper-1" || !c.Stream || c.User != "u" || c.Choices != 2 {
		t.Errorf("got %q, %v, %q, %d", c.Model, c.Stream, c.User, c.Choices)
	}
	out, err := New().Prepare(c, dialect.Upstream{BaseURL: "https://x/v1", Model: "gpt-4o-transcribe"})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(string(c.Request.Body), "whisper-1", "gpt-4o-transcribe", 1)
	if got := joined(out.Body); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPicturesAreReadOfABodyAndOfAForm(t *testing.T) {
	body := `{"model":"m","prompt":"a cat","size":"1024x1536","qu\u0061lity":"low","partial_images":2,"n":3}`
	r, _ := dialecttest.Request(New(), "POST", "/v1/images/generations", dialect.Header{"Content-Type": {"application/json"}}, []byte(body))
	c, err := New().Parse(r)
	if want := (dialect.Picture{Size: "1024x1536", Quality: "low", Partial: 2}); err != nil || c.Picture != want || c.Choices != 3 {
		t.Errorf("a body: got %+v × %d, %v, want %+v", c.Picture, c.Choices, err, want)
	}
	parts := form("model", "m", "prompt", "a cat", "size", "auto", "quality", "high", "input_fidelity", "low", "partial_images", "0", "image[]", "GIF", "image[]", "GIF", "mask", "GIF")
	r, _ = dialecttest.Request(New(), "POST", "/v1/images/edits", dialect.Header{"Content-Type": {`multipart/form-data; boundary="B"`}}, parts)
	c, err = New().Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(parts[c.Picture.Prompt.Start:c.Picture.Prompt.End]); got != "a cat" {
		t.Errorf("the form's prompt is %q", got)
	}
	c.Picture.Prompt = dialect.Span{}
	if want := (dialect.Picture{Size: "auto", Quality: "high", Fidelity: "low", Sources: 3}); c.Picture != want {
		t.Errorf("a form: got %+v, want %+v", c.Picture, want)
	}
	for _, body := range []string{`{"model":"m","partial_images":-1}`, `{"model":"m","partial_images":1.5}`, `{"model":"m","size":"a","size":"b"}`} {
		r, _ = dialecttest.Request(New(), "POST", "/v1/images/generations", dialect.Header{"Content-Type": {"application/json"}}, []byte(body))
		if _, err := New().Parse(r); err == nil {
			t.Errorf("%s: it was not refused", body)
		}
	}
	if _, err := formCall(form("model", "m", "partial_images", "-1")); fault.From(err) == nil || fault.From(err).Param != "partial_images" {
		t.Errorf("a form of −1 pictures: got %v", err)
	}
	for _, size := range []string{`7`, `null`, `{"a":1}`, `"` + strings.Repeat("1", 2000) + `"`} { // the provider's to refuse
		r, _ = dialecttest.Request(New(), "POST", "/v1/images/generations", dialect.Header{"Content-Type": {"application/json"}}, []byte(`{"model":"m","size":`+size+`}`))
		if c, err := New().Parse(r); err != nil || c.Picture.Size != "" {
			t.Errorf("a size of %.20s: got %q, %v", size, c.Picture.Size, err)
		}
	}
}

func TestABrokenFormIsRefused(t *testing.T) {
	for what, body := range map[string][]byte{
		"no model":       form("user", "u"),
		"an empty model": form("model", ""),
		"two models":     form("model", "a", "model", "b"),
		"a long number":  form("model", "a", "n", strings.Repeat("0", 2000)+"5"),
		"a file":         []byte(strings.Replace(string(form("model", "a")), `name="model"`, `name="model"; filename="m"`, 1)),
		"a bad switch":   form("model", "a", "stream", "yes"),
		"a bad number":   form("model", "a", "n", "-1"),
		"a number of 0":  form("model", "a", "n", "0"),
		"a huge number":  form("model", "a", "n", "1e30"),
		"two streams":    form("model", "a", "stream", "true", "stream", "false"),
		"two prompts":    form("model", "a", "prompt", "a long one", "prompt", "b"),
		"no boundary":    []byte("model=whisper-1"),
		"no end":         form("model", "a")[:120],
		"nothing":        nil,
		"only a start":   []byte("--B"),
		"no head":        []byte("--B\r\n\r\n\r\n--B--"),
	} {
		_, err := formCall(body)
		if f := fault.From(err); f == nil || f.Code != fault.InvalidRequest {
			t.Errorf("%s: got %v, want an invalid request", what, err)
		}
	}
}

func FuzzParseForm(f *testing.F) {
	f.Add(form("model", "m", "n", "2"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if c, err := formCall(body); err == nil && string(body[c.ModelSpan.Start:c.ModelSpan.End]) != c.Model {
			t.Fatalf("model %q is not at its span", c.Model)
		}
	})
}
