package blackbox

import (
	"net/http"
	"testing"
)

func TestAResponseInTheBackgroundIsNotFree(t *testing.T) {
	w := start(t, setup{limits: monthly("budget", "tokens", 10_000)})
	remaining := 10_000.0
	for _, s := range []struct {
		what string
		more string
		want float64 // charged
	}{
		{"one that is waited for", ``, 4 + 3},
		{"one that is fetched later", `,"background":true`, 100},
		{"one whose end is seen", `,"background":true,"stream":true`, 4 + 3},
	} {
		// "x" is counted as 8 tokens, as a chat's one message of one word.
		a := w.Post(secret, "/v1/responses", `{"model":"sim-in4-out3","input":"x","max_output_tokens":92`+s.more+`}`)
		if a.Status != http.StatusOK || a.Header.Get("X-LLMGW-Estimated-Tokens") != "100" {
			t.Fatalf("%s: %d, estimated %s: %s", s.what, a.Status, a.Header.Get("X-LLMGW-Estimated-Tokens"), a.Body)
		}
		w.settled()
		now := w.Limit("search", "budget").Remaining
		if got := remaining - now; got != s.want {
			t.Errorf("%s: charged %v, want %v", s.what, got, s.want)
		}
		remaining = now
	}
}
