package openai

import (
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
)

func TestC3UsageIsAskedForWithinWhatTheClientSent(t *testing.T) {
	for _, s := range []struct {
		what, body, want string
		injected         bool
	}{
		{"no stream", `{"model":"m"}`, `{"model":"m"}`, false},
		{"no options", `{"model":"m","stream":true}`, `{"stream_options":{"include_usage":true},"model":"m","stream":true}`, true},
		{"options of null", `{"model":"m","stream":true,"stream_options":null}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, true},
		{"empty options", `{"model":"m","stream":true,"stream_options":{ }}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true }}`, true},
		{"other options", `{"model":"m","stream":true,"stream_options":{"include_obfuscation":false}}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false}}`, true},
		{"a refusal of usage", `{"model":"m","stream":true,"stream_options":{"include_usage":false,"x":1}}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true,"x":1}}`, true},
		{"usage of null", `{"model":"m","stream":true,"stream_options":{"include_usage":null}}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, true},
		{"usage already", `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, false},
		{"odd spacing and a mark", "\ufeff\n{ \"stream\" : true ,\"model\":\"m\" }\n", "\ufeff\n{\"stream_options\":{\"include_usage\":true}, \"stream\" : true ,\"model\":\"m\" }\n", true},
	} {
		c := mustParse(t, "/v1/chat/completions", s.body)
		out, err := New().Prepare(c, dialect.Upstream{BaseURL: "https://x/v1", Model: "m", InjectUsage: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := joined(out.Body); got != s.want || out.Injected != s.injected {
			t.Errorf("%s: got %s (%v), want %s (%v)", s.what, got, out.Injected, s.want, s.injected)
		}
	}
}

func TestUsageIsNotAskedForWhereItIsNotKnown(t *testing.T) {
	const body = `{"model":"m","input":"x","stream":true}`
	for _, s := range []struct{ path, flavor string }{
		{"/v1/responses", "openai"}, {"/v1/audio/speech", "openai"}, {"/v1/chat/completions", "mistral"}, {"/v1/chat/completions", "perplexity"},
	} {
		c := mustParse(t, s.path, body)
		out, err := New().Prepare(c, dialect.Upstream{BaseURL: "https://x/v1", Flavor: s.flavor, InjectUsage: true})
		if err != nil {
			t.Fatal(err)
		}
		if joined(out.Body) != body || out.Injected {
			t.Errorf("%v: got %s", s, joined(out.Body))
		}
	}
}

func TestTheModelAndABoundAreWrittenInPlace(t *testing.T) {
	for _, s := range []struct {
		what, path, body, flavor string
		bound                    int
		want                     string
	}{
		{"the model", "/v1/chat/completions", `{"a":1,"model": "m" ,"b":"m"}`, "", 0, `{"a":1,"model": "up\"1" ,"b":"m"}`},
		{"a bound", "/v1/chat/completions", `{"model":"m"}`, "openai", 9, `{"max_completion_tokens":9,"model":"up\"1"}`},
		{"a bound by its older name", "/v1/chat/completions", `{"model":"m"}`, "together", 9, `{"max_tokens":9,"model":"up\"1"}`},
		{"a bound of null", "/v1/chat/completions", `{"max_completion_tokens":null,"model":"m"}`, "openai", 9, `{"max_completion_tokens":9,"model":"up\"1"}`},
		{"no second bound", "/v1/chat/completions", `{"model":"m","max_tokens":5}`, "openai", 9, `{"model":"up\"1","max_tokens":5}`},
		{"a response's bound", "/v1/responses", `{"model":"m"}`, "", 9, `{"max_output_tokens":9,"model":"up\"1"}`},
		{"a completion's bound where the server has none", "/v1/completions", `{"model":"m","prompt":"a"}`, "llamacpp", 9, `{"max_tokens":9,"model":"up\"1","prompt":"a"}`},
		{"likewise", "/v1/completions", `{"model":"m","prompt":"a"}`, "lmstudio", 9, `{"max_tokens":9,"model":"up\"1","prompt":"a"}`},
		{"a completion's bound that the server has", "/v1/completions", `{"model":"m","prompt":"a"}`, "", 9, `{"model":"up\"1","prompt":"a"}`},
		{"that vLLM has too", "/v1/completions", `{"model":"m","prompt":"a"}`, "vllm", 9, `{"model":"up\"1","prompt":"a"}`},
		{"llama.cpp's own bound", "/v1/completions", `{"model":"m","n_predict":5}`, "llamacpp", 9, `{"model":"up\"1","n_predict":5}`},
		{"nothing to bound", "/v1/embeddings", `{"model":"m"}`, "", 9, `{"model":"up\"1"}`},
		{"a model that was left out", "/v1/moderations", `{}`, "", 0, `{"model":"up\"1"}`},
	} {
		c := mustParse(t, s.path, s.body)
		to := dialect.Upstream{BaseURL: "https://x/v1", Model: `up"1`, Flavor: s.flavor}
		if s.bound > 0 {
			to.MaxOutput = 9
		}
		out, err := New().Prepare(c, to)
		if err != nil {
			t.Fatal(err)
		}
		if got := joined(out.Body); got != s.want {
			t.Errorf("%s: got %s, want %s", s.what, got, s.want)
		}
	}
}

func TestTheURLIsThatOfTheOfficialClient(t *testing.T) {
	for _, s := range []struct{ method, target, want string }{
		{"POST", "/v1/chat/completions", "https://x/base/v1/chat/completions"},
		{"POST", "/v1/completions?api-version=1&a=b&key=secret&k%65y=s", "https://x/base/v1/completions?a=b"},
		{"POST", "/v1/images/edits", "https://x/base/v1/images/edits"},
		{"POST", "/v1/audio/translations", "https://x/base/v1/audio/translations"},
		{"POST", "/v1/responses/input_tokens", "https://x/base/v1/responses/input_tokens"},
		{"GET", "/v1/responses/resp_1?stream=true&include[]=x", "https://x/base/v1/responses/resp_1?stream=true&include[]=x"},
		{"POST", "/v1/responses/resp_1/cancel", "https://x/base/v1/responses/resp_1/cancel"},
		{"DELETE", "/v1/responses/resp_1", "https://x/base/v1/responses/resp_1"},
		{"GET", "/v1/responses/resp_1/input_items", "https://x/base/v1/responses/resp_1/input_items"},
	} {
		r, ok := dialecttest.Request(New(), s.method, s.target, dialect.Header{}, nil)
		if !ok {
			t.Errorf("%s %s is no endpoint", s.method, s.target)
			continue
		}
		out, err := New().Prepare(&dialect.Call{Request: r}, dialect.Upstream{BaseURL: "https://x/base/v1/", APIKey: "k"})
		if err != nil {
			t.Fatal(err)
		}
		if out.URL != s.want || out.Method != s.method || out.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("%s: got %s %s with %q, want %s", s.target, out.Method, out.URL, out.Header.Get("Authorization"), s.want)
		}
	}
}

func TestTheBodyOfACallForAStoredResponseStays(t *testing.T) {
	for _, body := range []string{"", "{}", "no JSON"} {
		r, _ := dialecttest.Request(New(), "POST", "/v1/responses/resp_1/cancel", dialect.Header{}, []byte(body))
		c, err := New().Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		out, err := New().Prepare(c, dialect.Upstream{BaseURL: "https://x/v1", Model: "m", InjectUsage: true, MaxOutput: 9})
		if err != nil || joined(out.Body) != body {
			t.Errorf("%q became %q, %v", body, joined(out.Body), err)
		}
	}
}

func TestEndToEndHeadersArePassedOn(t *testing.T) {
	c := mustParse(t, "/v1/chat/completions", `{"model":"m","stream":true}`)
	c.Header = dialect.Header{
		"Accept": {"application/json"}, "Accept-Encoding": {"gzip, br"}, "Content-Type": {"application/json"}, "User-Agent": {"OpenAI/JS"},
		"Idempotency-Key": {"i"}, "X-Stainless-Retry-Count": {"0"}, "Openai-Beta": {"a", "b"}, "Traceparent": {"t"},
		"Connection": {"keep-alive, X-One", "x-two"}, "X-One": {"1"}, "X-Two": {"2"}, "Te": {"trailers"}, "Upgrade": {"h2c"}, "Expect": {"100-continue"},
		"Content-Encoding": {"gzip"}, "Content-Length": {"5"}, "X-Llmgw-Max-Wait": {"5s"}, "X-Forwarded-For": {"10.0.0.1"}, "Openai-Organization": {"org"},
	}
	out, err := New().Prepare(c, dialect.Upstream{BaseURL: "https://x/v1"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range out.Header {
		names = append(names, name)
	}
	if len(names) != 8 || strings.Join(out.Header["Openai-Beta"], ",") != "a,b" {
		t.Errorf("got %v", out.Header)
	}
	if got := out.Header.Get("Accept-Encoding"); got != "identity" {
		t.Errorf("a stream without usage may be encoded as %q", got)
	}
	if c.Header.Get("Accept-Encoding") != "gzip, br" {
		t.Error("the client's headers were changed")
	}
	c = mustParse(t, "/v1/chat/completions", `{"model":"m"}`)
	c.Header.Set("Accept-Encoding", "gzip")
	out, err = New().Prepare(c, dialect.Upstream{BaseURL: "https://x/v1"})
	if err != nil || out.Header.Get("Accept-Encoding") != "gzip" {
		t.Errorf("got %v, %v", out.Header, err)
	}
}

func TestAProvidersBaseURLIsThatOfItsOfficialClient(t *testing.T) {
	for base, want := range map[string]string{
		"https://api.openai.com/v1":                               "https://api.openai.com/v1/chat/completions",
		"https://api.openai.com/v1/":                              "https://api.openai.com/v1/chat/completions",
		"https://api.mistral.ai/v1":                               "https://api.mistral.ai/v1/chat/completions",
		"https://api.deepseek.com":                                "https://api.deepseek.com/chat/completions",
		"https://api.groq.com/openai/v1":                          "https://api.groq.com/openai/v1/chat/completions",
		"https://openrouter.ai/api/v1":                            "https://openrouter.ai/api/v1/chat/completions",
		"https://api.together.xyz/v1":                             "https://api.together.xyz/v1/chat/completions",
		"https://api.fireworks.ai/inference/v1":                   "https://api.fireworks.ai/inference/v1/chat/completions",
		"https://api.x.ai/v1":                                     "https://api.x.ai/v1/chat/completions",
		"https://api.perplexity.ai":                               "https://api.perplexity.ai/chat/completions",
		"http://127.0.0.1:8000/v1":                                "http://127.0.0.1:8000/v1/chat/completions",
		"https://generativelanguage.googleapis.com/v1beta/openai": "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
	} {
		c := mustParse(t, "/v1/chat/completions?key=secret", `{"model":"m"}`)
		out, err := New().Prepare(c, dialect.Upstream{BaseURL: base, APIKey: "sk", Model: "m"})
		if err != nil || out.URL != want {
			t.Errorf("%s: got %s, %v, want %s", base, out.URL, err, want)
		}
	}
}
