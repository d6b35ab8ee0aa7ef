package azure

import (
	"bytes"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
	"llmgw/internal/dialect/openai"
	"llmgw/internal/fault"
)

func suite() dialecttest.Suite {
	return dialecttest.Suite{
		Dialect:    New(),
		Answers:    map[string]dialecttest.Source{"azure.chat": {Operation: dialect.Chat}, "azure.error": {Operation: dialect.Chat}},
		Requests:   []string{"azure.chat"},
		StreamType: "text/event-stream",
	}
}

func TestTheDialectPassesItsSuite(t *testing.T) { dialecttest.Run(t, suite()) }

func FuzzMeter(f *testing.F) { dialecttest.Fuzz(f, suite()) }

func call(t *testing.T, d dialect.Dialect, method, target, body string) *dialect.Call {
	t.Helper()
	r, ok := dialecttest.Request(d, method, target, dialect.Header{"X-Stainless-Lang": {"js"}}, []byte(body))
	if !ok {
		t.Fatalf("%s is no endpoint", target)
	}
	c, err := d.Parse(r)
	if err != nil {
		t.Fatalf("%s %s: %v", target, body, err)
	}
	return c
}

func TestPathVersionAndDeploymentAreRewritten(t *testing.T) {
	const dated = "2024-10-21"
	for _, s := range []struct {
		what           string
		from           dialect.Dialect
		method, target string
		body           string
		to             dialect.Upstream
		url, sent      string
	}{
		{"deployment to deployment", New(), "POST", "/openai/deployments/dep/chat/completions?api-version=2023-01-01&x=1&key=s", `{"model":"ignored"}`,
			dialect.Upstream{Model: "my dep", APIVersion: dated}, "/openai/deployments/my%20dep/chat/completions?api-version=2024-10-21&x=1", `{"model":"ignored"}`},
		{"the client's version", New(), "POST", "/openai/deployments/dep/embeddings?api-version=2023-01-01", `{"input":"a"}`,
			dialect.Upstream{}, "/openai/deployments/dep/embeddings?api-version=2023-01-01", `{"input":"a"}`},
		{"deployment to v1", New(), "POST", "/openai/deployments/dep/chat/completions?api-version=2023-01-01", `{"messages":[]}`,
			dialect.Upstream{Model: "dep", APIVersion: "v1"}, "/openai/v1/chat/completions", `{"model":"dep","messages":[]}`},
		{"deployment to v1, over the body's model", New(), "POST", "/openai/deployments/dep/chat/completions", `{"model":"ignored"}`,
			dialect.Upstream{Model: "dep", APIVersion: "v1"}, "/openai/v1/chat/completions", `{"model":"dep"}`},
		{"v1 to deployment", New(), "POST", "/openai/v1/chat/completions?api-version=preview", `{"model":"dep"}`,
			dialect.Upstream{Model: "other", APIVersion: dated}, "/openai/deployments/other/chat/completions?api-version=2024-10-21", `{"model":"dep"}`},
		{"v1 to v1", New(), "POST", "/openai/v1/responses?api-version=preview", `{"model":"dep"}`,
			dialect.Upstream{Model: "other"}, "/openai/v1/responses", `{"model":"other"}`},
		{"responses by a dated version", New(), "POST", "/openai/v1/responses", `{"model":"dep"}`,
			dialect.Upstream{Model: "other", APIVersion: dated}, "/openai/responses?api-version=2024-10-21", `{"model":"other"}`},
		{"responses by the client's dated version", New(), "POST", "/openai/responses?api-version=2025-03-01-preview", `{"model":"dep"}`,
			dialect.Upstream{Model: "other", APIVersion: "v1"}, "/openai/v1/responses", `{"model":"other"}`},
		{"a stored one by it", New(), "DELETE", "/openai/responses/resp_1?api-version=2025-03-01-preview", ``,
			dialect.Upstream{}, "/openai/responses/resp_1?api-version=2025-03-01-preview", ``},
		{"a stored response", New(), "GET", "/openai/v1/responses/resp_1?stream=true", ``,
			dialect.Upstream{APIVersion: dated}, "/openai/responses/resp_1?api-version=2024-10-21&stream=true", ``},
		{"OpenAI to deployment", openai.New(), "POST", "/v1/chat/completions", `{"model":"gpt-4o","stream":true}`,
			dialect.Upstream{Model: "dep", APIVersion: dated, InjectUsage: true}, "/openai/deployments/dep/chat/completions?api-version=2024-10-21", `{"stream_options":{"include_usage":true},"model":"gpt-4o","stream":true}`},
		{"OpenAI to v1", openai.New(), "POST", "/v1/images/generations", `{"model":"gpt-image"}`,
			dialect.Upstream{Model: "dep", APIVersion: "v1"}, "/openai/v1/images/generations", `{"model":"dep"}`},
	} {
		c := call(t, s.from, s.method, s.target, s.body)
		s.to.BaseURL, s.to.APIKey, s.to.Dialect = "https://r.openai.azure.com", "k", Name
		out, err := s.from.Prepare(c, s.to)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimPrefix(out.URL, s.to.BaseURL); got != s.url || out.Method != s.method {
			t.Errorf("%s: got %s, want %s", s.what, got, s.url)
		}
		if got := string(bytes.Join(out.Body, nil)); got != s.sent {
			t.Errorf("%s: sent %s, want %s", s.what, got, s.sent)
		}
		if out.Header.Get("Api-Key") != "k" || out.Header.Get("X-Stainless-Lang") != "" {
			t.Errorf("%s: the headers are %v", s.what, out.Header)
		}
	}
}

func TestAnAzureCallGoesToAnOpenAIProviderToo(t *testing.T) {
	c := call(t, New(), "POST", "/openai/deployments/dep/chat/completions?api-version=2024-10-21", `{"model":"ignored"}`)
	out, err := New().Prepare(c, dialect.Upstream{Dialect: openai.Name, BaseURL: "https://api/v1", Model: "gpt-4o"})
	if err != nil || out.URL != "https://api/v1/chat/completions" || string(bytes.Join(out.Body, nil)) != `{"model":"gpt-4o"}` {
		t.Errorf("got %s, %s, %v", out.URL, bytes.Join(out.Body, nil), err)
	}
}

func TestAFormGetsTheModelThatOnlyItsPathHad(t *testing.T) {
	form := "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--B--\r\n"
	r, ok := dialecttest.Request(New(), "POST", "/openai/deployments/whisper/audio/transcriptions", dialect.Header{"Content-Type": {"multipart/form-data; boundary=B"}}, []byte(form))
	if !ok {
		t.Fatal("no endpoint")
	}
	c, err := New().Parse(r)
	if err != nil || c.Model != "whisper" {
		t.Fatalf("got %+v, %v", c, err)
	}
	out, err := New().Prepare(c, dialect.Upstream{BaseURL: "https://r", Model: "dep", APIVersion: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	want := "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ndep\r\n" + form
	if got := string(bytes.Join(out.Body, nil)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestADeploymentMustBeReadable(t *testing.T) {
	for _, path := range []string{"/openai/deployments/%zz/chat/completions", "/openai/deployments/%00/chat/completions"} {
		r, ok := dialecttest.Request(New(), "POST", path, dialect.Header{}, []byte(`{}`))
		if !ok {
			t.Fatalf("%s is no endpoint", path)
		}
		if _, err := New().Parse(r); fault.From(err) == nil || fault.From(err).Code != fault.InvalidRequest {
			t.Errorf("%s: got %v, want an invalid request", path, err)
		}
	}
}

func TestARefusalHasACodeAndNoType(t *testing.T) {
	got := string(New().Refusal(&fault.Error{Code: fault.RateLimitExceeded, Message: "Wait."}, "r").Body)
	if want := `{"error":{"code":"429","message":"Wait."}}` + "\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	got = string(New().ErrorEvent(fault.Invalid("n", "No."), "r"))
	if want := `data: {"error":{"code":"invalid_request","message":"No.","param":"n"}}` + "\n\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
