package fakellm

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestScriptedFailuresAreInTheAPIsWords(t *testing.T) {
	w := newWorld(t, Options{})
	for _, s := range []struct {
		path, words string
		status      int
		at, want    string
	}{
		{"/v1/chat/completions", "fail400", 400, "error.type", "invalid_request_error"},
		{"/v1/chat/completions", "fail429", 429, "error.code", "rate_limit_exceeded"},
		{"/v1/chat/completions", "fail429-quota", 429, "error.code", "insufficient_quota"},
		{"/v1/chat/completions", "fail503", 503, "error.type", "server_error"},
		{"/v1/messages", "fail400", 400, "error.type", "invalid_request_error"},
		{"/v1/messages", "fail402", 402, "error.type", "billing_error"},
		{"/v1/messages", "fail429", 429, "error.type", "rate_limit_error"},
		{"/v1/messages", "fail429-quota", 429, "error.details.error_code", "enforced_spend_limit_reached"},
		{"/v1/messages", "fail500", 500, "error.type", "api_error"},
		{"/v1/messages", "fail529", 529, "error.type", "overloaded_error"},
		{"gemini", "fail429-after2.5s", 429, "error.details.0.retryDelay", "2.5s"},
		{"gemini", "fail503", 503, "error.status", "UNAVAILABLE"},
		{"gemini", "fail400", 400, "error.status", "INVALID_ARGUMENT"},
	} {
		t.Run(s.path+" "+s.words, func(t *testing.T) {
			path := s.path
			if path == "gemini" {
				path = "/v1beta/models/sim-" + s.words + ":generateContent"
			}
			resp := w.post(path, `{"model":"sim-`+s.words+`","max_tokens":5,"messages":[]}`)
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got := dig(t, parse(t, string(b)), s.at); resp.StatusCode != s.status || got != s.want {
				t.Errorf("%d, %s = %v, want %d, %s", resp.StatusCode, s.at, got, s.status, s.want)
			}
		})
	}
}

func TestAnArrayStreamWrapsItsErrorsToo(t *testing.T) {
	w := newWorld(t, Options{})
	for _, s := range []struct{ query, prefix string }{
		{"", `[{"error":{"code":503,`},
		{"?alt=sse", `{"error":{"code":503,`},
	} {
		got := w.text("/v1beta/models/sim-fail503:streamGenerateContent"+s.query, `{"contents":[]}`)
		if !strings.HasPrefix(got, s.prefix) || !json.Valid([]byte(got)) {
			t.Errorf("%q: %s, want it to start with %s", s.query, got, s.prefix)
		}
	}
}

func TestTheFirstRequestsOfANameMayFail(t *testing.T) {
	w := newWorld(t, Options{})
	statuses := func(model string, n int) (got []int) {
		for range n {
			got = append(got, w.post("/v1/chat/completions", `{"model":"`+model+`","messages":[]}`).StatusCode)
		}
		return got
	}
	for _, s := range []struct {
		model string
		want  []int
	}{
		{"sim-fail500x2", []int{500, 500, 200, 200}},
		{"sim-fail500x2-tag1", []int{500, 500, 200}}, // another name counts by itself
		{"sim-fail500", []int{500, 500, 500}},
	} {
		got := statuses(s.model, len(s.want))
		for i := range got {
			if got[i] != s.want[i] {
				t.Errorf("%s: %v, want %v", s.model, got, s.want)
				break
			}
		}
	}
	w.Reset()
	if got := statuses("sim-fail500x2", 1)[0]; got != 500 {
		t.Errorf("after a reset: %d, want 500 again", got)
	}
}

func TestAFailureMayNameAWait(t *testing.T) {
	w := newWorld(t, Options{})
	resp := w.post("/v1/chat/completions", `{"model":"sim-fail429-after700ms","messages":[]}`)
	if ms, s := resp.Header.Get("Retry-After-Ms"), resp.Header.Get("Retry-After"); ms != "700" || s != "1" {
		t.Errorf("retry-after-ms %q, retry-after %q, want 700 and 1", ms, s)
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	w := newWorld(t, Options{Keys: nil})
	for _, s := range []struct {
		what, path, body string
		status           int
	}{
		{"no JSON", "/v1/chat/completions", `{"model":`, 400},
		{"no model", "/v1/chat/completions", `{"messages":[]}`, 400},
		{"no max_tokens", "/v1/messages", `{"model":"sim","messages":[]}`, 400},
		{"a script with a mistake", "/v1/chat/completions", `{"model":"sim-oops","messages":[]}`, 404},
		{"stream_options where there are none", "/v1/chat/completions", `{"model":"sim-noopts","messages":[],"stream_options":{}}`, 400},
		{"but without them all is well", "/v1/chat/completions", `{"model":"sim-noopts","messages":[]}`, 200},
		{"null is as good as absent", "/v1/chat/completions", `{"model":"sim-noopts","messages":[],"stream_options":null}`, 200},
		{"an unknown path", "/v1/chat", `{}`, 404},
		{"a method that an endpoint does not have", "/v1/models", `{}`, 405},
		{"an unknown verb", "/v1beta/models/sim:dance", `{}`, 404},
		{"nothing stored, by Azure's dated path", "/openai/responses/resp_none/cancel", `{}`, 404},
		{"a path that begins like responses", "/openai/responsesx", `{}`, 404},
		{"an Anthropic path under an Azure deployment", "/openai/deployments/sim/messages", `{}`, 404},
	} {
		t.Run(s.what, func(t *testing.T) {
			resp := w.post(s.path, s.body)
			if resp.StatusCode != s.status {
				t.Errorf("status %d, want %d", resp.StatusCode, s.status)
			}
			if s.status != 200 && !strings.Contains(w.text(s.path, s.body), `"message":"`) {
				t.Error("no message")
			}
		})
	}
}

func TestOnlyItsKeysOpenIt(t *testing.T) {
	w := newWorld(t, Options{Keys: []string{"right", "also"}})
	for _, s := range []struct {
		name, value string
		status      int
	}{
		{"Authorization", "Bearer right", 200},
		{"Authorization", "Bearer wrong", 401},
		{"Authorization", "right", 401},
		{"X-Api-Key", "also", 200},
		{"Api-Key", "right", 200},
		{"X-Goog-Api-Key", "right", 200},
		{"X-Other", "right", 401},
	} {
		r, err := http.NewRequest(http.MethodPost, w.url+"/v1/chat/completions", strings.NewReader(`{"model":"sim","messages":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(s.name, s.value)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != s.status {
			t.Errorf("%s: %s = %d, want %d", s.name, s.value, resp.StatusCode, s.status)
		}
	}
	if got := w.post("/v1beta/models/sim:generateContent?key=also", `{}`).StatusCode; got != 200 {
		t.Errorf("?key=: %d, want 200", got)
	}
}

func TestAnAnswerMayBeNoJSON(t *testing.T) {
	w := newWorld(t, Options{})
	if got := w.text("/v1/chat/completions", `{"model":"sim-badjson","messages":[]}`); json.Valid([]byte(got)) || got == "" {
		t.Errorf("badjson: %q", got)
	}
	resp := w.post("/v1/chat/completions", `{"model":"sim-html","messages":[]}`)
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(got, "text/html") {
		t.Errorf("html: %d %s", resp.StatusCode, got)
	}
}

func TestAClientThatLeavesIsNoticedAtOnce(t *testing.T) {
	for _, s := range []struct {
		what, model string
		chunks      int64
	}{
		{"in a stream", "sim-chunks1000-every1h", 1},
		{"in a stream that fell silent", "sim-out5-hang2", 2},
		{"before the headers", "sim-wait1h", 0},
		{"of a provider that hangs", "sim-hang", 0},
		{"in the tail", "sim-chunks1-tail1h", 1},
	} {
		t.Run(s.what, func(t *testing.T) {
			w := newWorld(t, Options{})
			ctx, leave := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/v1/chat/completions",
				strings.NewReader(`{"model":"`+s.model+`","stream":true,"messages":[]}`))
			if err != nil {
				t.Fatal(err)
			}
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					return // it left before the headers
				}
				defer resp.Body.Close()
				_, _ = io.Copy(io.Discard, resp.Body) // ends as we leave
			}()
			for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
				if last := w.Stats().Last; len(last) == 1 && last[0].Chunks == s.chunks && last[0].Model != "" {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("never came to %d chunks: %+v", s.chunks, w.Stats().Last)
				}
			}
			leave()
			<-gone
			w.idle()
			if got := w.Stats(); got.PeerGone != 1 || got.Last[0].Outcome != PeerGone {
				t.Errorf("seen as %s, want %s", got.Last[0].Outcome, PeerGone)
			}
		})
	}
}
