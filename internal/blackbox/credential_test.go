package blackbox

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// One of two keys is revoked: nobody notices but who reads logs and metrics, and
// all gateways leave it alone.
func TestADeadKeyAmongSeveralFailsNoCallOnAnyGateway(t *testing.T) {
	var dead, good atomic.Int32
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if strings.Contains(r.Header.Get("Authorization"), "dead") {
			dead.Add(1)
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"error":{"message":"Incorrect API key provided: sk-p****dead.","type":"invalid_request_error","code":"invalid_api_key"}}`)
			return
		}
		good.Add(1)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14}}`)
	})
	w := start(t, setup{
		gateways: 2, redis: true, limits: tokensLimit(),
		providers: "{name: p, dialect: openai, base_url: " + server + ", api_keys: [sk-provider-key-dead, sk-provider-key-good], retries: {attempts: 0}}\n" +
			"{name: alone, dialect: openai, base_url: " + server + ", api_keys: [sk-provider-alone-dead]}",
		models: "{name: m, targets: [{provider: p}]}\n{name: lost, targets: [{provider: alone}]}",
	})
	calls := func(n, gateway int) {
		for range n {
			if a := w.all[gateway].Post(secret, chat, ask("m")); a.Status != 200 {
				t.Errorf("gateway %d: got %d\n%s", gateway, a.Status, a.Body)
			}
		}
	}
	resting := func(gateway int) bool {
		return w.all[gateway].Metrics().Sum("llmgw_upstream_resting", "provider", "p", "cause", "refused") == 1
	}
	calls(4, 0)
	w.Eventually("known here", eventually, func() bool { return resting(0) })
	w.Eventually("known to the other gateway", eventually, func() bool { return resting(1) })
	before := dead.Load()
	if before != 1 {
		t.Errorf("the dead key was asked %d times by four calls, want once", before)
	}
	calls(20, 1)
	if n := dead.Load() - before; n > 1 { // a probe, on a slow machine
		t.Errorf("the other gateway asked the dead key %d times", n)
	}

	for range 2 { // the only key of its provider
		a := w.all[0].Post(secret, chat, ask("lost"))
		if a.Status != 502 || a.Code() != "upstream_error" || a.Header.Get("WWW-Authenticate") != "" || strings.Contains(a.Body, "dead") {
			t.Errorf("with no key left: got %d %q, %v\n%s", a.Status, a.Code(), a.Header, a.Body)
		}
	}
	if got := w.all[0].Metrics().Sum("llmgw_upstream_rests_total", "cause", "refused"); got != 2 {
		t.Errorf("%v credentials began to rest, want 2", got)
	}
	w.settled()
}
