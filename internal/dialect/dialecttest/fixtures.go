package dialecttest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmgw/internal/dialect"
)

// Root is where the fixtures are, seen from a dialect's package.
const Root = "../testdata"

// answer is a recorded answer with what must be read from it.
type answer struct {
	File    string
	Dialect string
	Stream  bool
	HTTP    struct {
		Status      int
		ContentType string `json:"content_type"`
		Headers     map[string]string
	}
	UsageReported bool   `json:"usage_reported"`
	Input         *int64 `json:"input_tokens"`
	Cached        *int64 `json:"cached_input_tokens"`
	Written       *int64 `json:"cache_write_tokens"`
	Output        *int64 `json:"output_tokens"`
	Reasoning     *int64 `json:"reasoning_tokens"`
	Finish        *string
	Complete      bool
	Model         *string
	Error         *struct {
		Type, Code any
		Message    string
	}
	Extra struct {
		ContentText *string `json:"content_text"`
	}
	body []byte
}

func (a *answer) head() dialect.Answer {
	h := dialect.Header{}
	for name, value := range a.HTTP.Headers {
		h.Set(name, value)
	}
	h.Set("Content-Type", a.HTTP.ContentType)
	return dialect.Answer{Status: a.HTTP.Status, Header: h}
}

// recorded is a recorded request with what must be read from it.
type recorded struct {
	File    string
	Dialect string
	Method  string
	Path    string
	Headers map[string]string
	Model   *string
	Stream  bool
	Max     *int64 `json:"max_output"`
	N       int64
	Prompts int64
	Usage   bool `json:"include_usage"`
	Invalid bool
	body    []byte
}

// load reads all the fixtures whose expectations end so.
func load[T any](t testing.TB, suffix string, keep func(T, []byte) T) []T {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(Root, "*"+suffix))
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures in %s: %v", Root, err)
	}
	var all []T
	for _, file := range files {
		if suffix == ".expect.json" && strings.HasSuffix(file, ".req.expect.json") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var v T
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var named struct{ File string }
		if err := json.Unmarshal(text, &named); err != nil {
			t.Fatal(err)
		}
		body, err := os.ReadFile(filepath.Join(Root, named.File))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, keep(v, body))
	}
	return all
}

func answers(t testing.TB) []answer {
	return load(t, ".expect.json", func(a answer, body []byte) answer { a.body = body; return a })
}

func requests(t testing.TB) []recorded {
	return load(t, ".req.expect.json", func(r recorded, body []byte) recorded { r.body = body; return r })
}
