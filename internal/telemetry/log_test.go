package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestALogLineIsJSON(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, slog.LevelInfo)
	log.Debug("not shown")
	log.Info("request", "team", "search", "input_tokens", 12, "outcome", "completed")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%q: %v", out.String(), err)
	}
	for key, want := range map[string]any{"msg": "request", "team": "search", "input_tokens": 12.0, "outcome": "completed", "level": "INFO"} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
}

func TestNoSecretGetsIntoTheLog(t *testing.T) {
	const secret = "sk-llmgw-Zk3vbn92QpLx81TT"
	const plain = "Zk3vbn92QpLx81TT"
	type settings struct {
		APIKey string `json:"api_key"`
		Name   string
	}
	for _, c := range []struct {
		what string
		args []any
	}{
		{"an authorization attribute", []any{"authorization", plain}},
		{"a header's name in capitals", []any{"X-API-Key", plain}},
		{"a key in a group", []any{slog.Group("request", slog.String("api_key", plain))}},
		{"a redis password", []any{"redis.password", plain}},
		{"a bearer credential in a text", []any{"header", "Bearer " + plain}},
		{"a key in an error", []any{"error", fmt.Errorf("dial: %w", errors.New("key "+secret+" was refused"))}},
		{"headers", []any{"headers", http.Header{"Authorization": {"Bearer " + plain}, "X-Api-Key": {plain}}}},
		{"a struct with a key", []any{"config", settings{APIKey: plain, Name: "openai"}}},
		{"a key in a query", []any{"url", "https://host/v1beta/models?key=" + plain}},
		{"a URL with a password", []any{"addr", &url.URL{Scheme: "redis", User: url.UserPassword("default", plain), Host: "r:6379"}}},
		{"a password in an address", []any{"addr", "redis://default:" + plain + "@r:6379/0"}},
		{"bytes", []any{"raw", []byte("Authorization: Bearer " + plain)}},
		{"a Google key", []any{"note", "AIzaSy" + plain + plain}},
		{"an AWS key", []any{"note", "AKIAZ" + strings.ToUpper(plain)}},
		{"basic credentials", []any{"header", "basic dXNlcjpwYXNz" + plain}},
		{"a JSON text", []any{"body", `{"password":"` + plain + `"}`}},
		{"a list of keys", []any{"api_keys", []string{plain}}},
	} {
		var out bytes.Buffer
		NewLogger(&out, slog.LevelInfo).With("a", "b").Info("something", c.args...)
		if strings.Contains(out.String(), plain) {
			t.Errorf("%s: %s", c.what, out.String())
		}
		if !strings.Contains(out.String(), redacted) {
			t.Errorf("%s: nothing says that something is left out: %s", c.what, out.String())
		}
	}
	var out bytes.Buffer
	NewLogger(&out, slog.LevelInfo).Info("provider said: invalid key " + secret)
	if strings.Contains(out.String(), secret) {
		t.Errorf("a message: %s", out.String())
	}
}

func TestWhatIsNoSecretIsLeftAlone(t *testing.T) {
	for _, a := range []slog.Attr{
		slog.String("key_id", "search-prod"),
		slog.String("request_id", "req_01hzy3k5"),
		slog.Int("input_tokens", 12),
		slog.String("model", "gpt-4o"),
		slog.String("limited_by", "key/search-prod/key-tpm"),
		slog.String("addr", "https://api.openai.com/v1/chat/completions"),
		slog.String("text", "the task-force skips keys that are known"),
		slog.Any("numbers", [2]int{1, 2}),
		slog.String("endpoint", "/v1/models/:model"),
		slog.Int("max_tokens", 5),
		slog.String("reserved_tokens", "12"),
		slog.String("key", "search-prod"),
		slog.String("monkey", "a secret of none"),
	} {
		got := redactAttr(a)
		if !got.Equal(a) {
			t.Errorf("%v became %v", a, got)
		}
	}
}

func BenchmarkALine(b *testing.B) {
	log := NewLogger(discard{}, slog.LevelInfo)
	b.ReportAllocs()
	for b.Loop() {
		log.Info("request", "request_id", "req_01hzy3k5", "team", "search", "key_id", "search-prod", "model", "gpt-4o",
			"endpoint", "/v1/chat/completions", "provider", "openai", "status", 200, "outcome", "completed", "input_tokens", 812)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func TestWhatTheConfigurationCallsThingsIsNoSecret(t *testing.T) {
	var out bytes.Buffer
	NewLogger(&out, slog.LevelInfo).Info("request", "team", "pk-platform-team", "key_id", "key-frontend-prod",
		"limited_by", "key/key-frontend-prod/key-tokens-a-minute", "provider", "fw-fireworks-eu", "model", "sk-proj-0123456789")
	for _, want := range []string{
		`"team":"pk-platform-team"`, `"key_id":"key-frontend-prod"`, `"limited_by":"key/key-frontend-prod/key-tokens-a-minute"`,
		`"provider":"fw-fireworks-eu"`, `"model":"[redacted]"`, // which is the client's word
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %s in %s", want, out.String())
		}
	}
}
