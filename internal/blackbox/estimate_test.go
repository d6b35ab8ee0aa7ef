package blackbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestB1ARequestWithoutAMaximumFitsASmallLimit(t *testing.T) {
	w := start(t, setup{limits: "{name: tpm, unit: tokens, amount: 500, per: minute}", model: "default_max_output: 256"})
	a := w.Post(secret, chat, ask("sim-in8-out22"))
	if a.Status != 200 {
		t.Fatalf("got %d, want 200\n%s", a.Status, a.Body)
	}
	if got, want := a.Header.Get("X-LLMGW-Estimated-Tokens"), fmt.Sprint(promptTokens+256); got != want {
		t.Errorf("estimated: got %s tokens, want %s", got, want)
	}
	w.settled()
}

func TestB2TheLargestBoundCounts(t *testing.T) {
	for _, s := range []struct{ what, path, body, want string }{
		{"two bounds of chat", chat, ask("sim-out1", `"max_tokens":1`, `"max_completion_tokens":10000`), fmt.Sprint(promptTokens + 10000)},
		{"three answers", chat, ask("sim-out1", `"max_tokens":100`, `"n":3`), fmt.Sprint(promptTokens + 300)},
		{"responses", "/v1/responses", `{"model":"sim-out1","input":"hi","max_output_tokens":700}`, ""},
		{"completions, best of", "/v1/completions", `{"model":"sim-out1","prompt":"hi","max_tokens":50,"best_of":4}`, "201"},
	} {
		t.Run(s.what, func(t *testing.T) {
			w := start(t, setup{})
			a := w.Post(secret, s.path, s.body)
			if a.Status != 200 {
				t.Fatalf("got %d\n%s", a.Status, a.Body)
			}
			got := a.Header.Get("X-LLMGW-Estimated-Tokens")
			if s.want != "" && got != s.want {
				t.Errorf("estimated: got %s tokens, want %s", got, s.want)
			}
			if s.want == "" && len(got) != 3 {
				t.Errorf("estimated: got %s tokens, want 700 and a prompt", got)
			}
			w.settled()
		})
	}
}

func TestB4AnImageIsNoText(t *testing.T) {
	w := start(t, setup{})
	image := "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAABAAAAAQACAYAAAB/HSuD" + strings.Repeat("QUFB", 200_000)
	body := fmt.Sprintf(`{"model":"sim-out1","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":%q}}]}]}`, image)
	a := w.Post(secret, chat, body)
	if a.Status != 200 {
		t.Fatalf("got %d\n%s", a.Status, a.Body)
	}
	var estimated int
	if _, err := fmt.Sscan(a.Header.Get("X-LLMGW-Estimated-Tokens"), &estimated); err != nil || estimated > 2000 {
		t.Errorf("estimated: got %d tokens, %v, want at most 2000 for an image of 1024 × 1024", estimated, err)
	}
}

func TestB6BoundsThatAreNoBoundsAreRefused(t *testing.T) {
	w := start(t, setup{limits: monthly("tokens", "tokens", 1000)})
	for _, bad := range []string{"-5", "0", "1e30", `"12"`, "1.5", "true", "9007199254740993"} {
		a := w.Post(secret, chat, ask("sim-out1", `"max_tokens":`+bad))
		var refusal struct {
			Error struct{ Param, Code string }
		}
		if err := json.Unmarshal([]byte(a.Body), &refusal); err != nil {
			t.Fatalf("max_tokens %s: the body is no JSON: %v\n%s", bad, err, a.Body)
		}
		if a.Status != 400 || refusal.Error.Param != "max_tokens" || refusal.Error.Code != "invalid_request" {
			t.Errorf("max_tokens %s: got %d %+v, want 400 about max_tokens", bad, a.Status, refusal.Error)
		}
	}
	if got := w.Limit("search", "tokens").Remaining; got != 1000 {
		t.Errorf("got %v left, want all 1000: nothing may be reserved", got)
	}
	if a := w.Post(secret, chat, ask("sim-in8-out1", `"max_tokens":1e2`)); a.Status != 200 {
		t.Errorf("1e2 is an integer: got %d, want 200\n%s", a.Status, a.Body)
	}
	w.settled()
}

func TestBadInputGetsAClearErrorInTheDialectsShape(t *testing.T) {
	w := start(t, setup{limits: monthly("tokens", "tokens", 1000), server: "max_body_bytes: 64KiB"})
	for _, s := range []struct {
		what, path, body string
		headers          []string
		status           int
		code             string
	}{
		{"no JSON", chat, "{", nil, 400, "invalid_request"},
		{"an array", chat, "[]", nil, 400, "invalid_request"},
		{"nothing", chat, "", nil, 400, "invalid_request"},
		{"two documents", chat, ask("sim") + "{}", nil, 400, "invalid_request"},
		{"no model", chat, `{"messages":[]}`, nil, 400, "invalid_request"},
		{"a model twice", chat, `{"model":"a","model":"b","messages":[]}`, nil, 400, "invalid_request"},
		{"a deep nest", chat, `{"model":"sim","messages":` + strings.Repeat("[", 30000), nil, 400, "invalid_request"},
		{"another content type", chat, ask("sim"), []string{"Content-Type", "text/plain"}, 400, "invalid_request"},
		{"not the encoding it says", chat, ask("sim"), []string{"Content-Encoding", "gzip"}, 400, "invalid_request"},
		{"a wait that is none", chat, ask("sim"), []string{"X-LLMGW-Max-Wait", "soon"}, 400, "invalid_request"},
		{"too large", chat, ask("sim", `"x":"`+strings.Repeat("a", 65<<10)+`"`), nil, 413, "request_too_large"},
		{"no such path", "/v1/chat/completion", ask("sim"), nil, 404, "not_found"},
		{"Anthropic without a maximum", "/v1/messages", ask("sim"), nil, 400, "invalid_request"},
	} {
		a := w.Post(secret, s.path, s.body, s.headers...)
		if a.Status != s.status || a.Code() != s.code {
			t.Errorf("%s: got %d %q, want %d %q\n%s", s.what, a.Status, a.Code(), s.status, s.code, a.Body)
		}
		var shape struct {
			Type  string
			Error struct{ Type, Message string }
		}
		if err := json.Unmarshal([]byte(a.Body), &shape); err != nil || shape.Error.Message == "" || shape.Error.Type == "" {
			t.Errorf("%s: the body has no error of the API's shape: %v\n%s", s.what, err, a.Body)
		}
		if anthropic := s.path == "/v1/messages"; anthropic != (shape.Type == "error") {
			t.Errorf("%s: the error has another API's shape\n%s", s.what, a.Body)
		}
	}
	if got := w.Limit("search", "tokens").Remaining; got != 1000 {
		t.Errorf("got %v left, want all 1000", got)
	}
	if got := w.provider.Stats().Requests; got != 0 {
		t.Errorf("%d bad requests reached the provider", got)
	}
}

func TestB9ToolSchemasCount(t *testing.T) {
	w := start(t, setup{})
	var tools []string
	for i := range 40 {
		tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":"tool_%d","description":%q,"parameters":{"type":"object","properties":{"query":{"type":"string","description":%q},"limit":{"type":"integer"}},"required":["query"]}}}`,
			i, strings.Repeat("Looks something up in one of the catalogues of the company. ", 4), strings.Repeat("What to look for, in plain words. ", 4)))
	}
	body := fmt.Sprintf(`{"model":"sim-out1","max_tokens":1,"messages":[{"role":"user","content":"hi"}],"tools":[%s]}`, strings.Join(tools, ","))
	a := w.Post(secret, chat, body)
	var estimated int
	if _, err := fmt.Sscan(a.Header.Get("X-LLMGW-Estimated-Tokens"), &estimated); err != nil || estimated < len(body)/8 || estimated > len(body)/3 {
		t.Errorf("got an estimate of %d tokens for %d bytes of tools, %v, want about a quarter of the bytes", estimated, len(body), err)
	}
	w.settled()
}

func TestB11ALearnedReserveFollowsWhatIsReallyUsed(t *testing.T) {
	w := start(t, setup{limits: tokensLimit(), model: "reserve_output: learned"})
	body := ask("sim-in8-out100", `"max_tokens":4096`)
	reserved := func() int {
		a := w.Post(secret, chat, body)
		var n int
		if _, err := fmt.Sscan(a.Header.Get("X-LLMGW-Estimated-Tokens"), &n); a.Status != 200 || err != nil {
			t.Fatalf("got %d, %v\n%s", a.Status, err, a.Body)
		}
		return n
	}
	if got := reserved(); got != promptTokens+4096 {
		t.Errorf("at first %d tokens are reserved, want the maximum: nothing is known", got)
	}
	var last int
	for range 120 {
		last = reserved()
	}
	if used := 108; used*10 < last*8 || last < used {
		t.Errorf("%d tokens are reserved for requests that use %d: want 80 %% of the reserve used, and none above it", last, used)
	}
	w.settled()
}
