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

// Answer is a recorded answer with what must be read from it.
type Answer struct {
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
	Body []byte `json:"-"`
}

func (a *Answer) head() dialect.Answer {
	h := dialect.Header{}
	for name, value := range a.HTTP.Headers {
		h.Set(name, value)
	}
	h.Set("Content-Type", a.HTTP.ContentType)
	return dialect.Answer{Status: a.HTTP.Status, Header: h}
}

// Recorded is a recorded request with what must be read from it.
type Recorded struct {
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
	Exact   *int64 `json:"input_tokens_exact"`
	Body    []byte `json:"-"`
}

// load reads all the fixtures in dir whose expectations end so.
func load[T any](t testing.TB, dir, suffix string, keep func(T, []byte) T) []T {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures in %s: %v", dir, err)
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
		body, err := os.ReadFile(filepath.Join(dir, named.File))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, keep(v, body))
	}
	return all
}

// Answers reads the recorded answers in dir.
func Answers(t testing.TB, dir string) []Answer {
	t.Helper()
	return load(t, dir, ".expect.json", func(a Answer, body []byte) Answer { a.Body = body; return a })
}

// Requests reads the recorded requests in dir.
func Requests(t testing.TB, dir string) []Recorded {
	t.Helper()
	return load(t, dir, ".req.expect.json", func(r Recorded, body []byte) Recorded { r.Body = body; return r })
}
