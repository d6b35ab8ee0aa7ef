package blackbox

import (
	"net/http"
	"testing"
	"time"
)

func TestAWaitForTheProviderIsNoOverheadHoweverItEnds(t *testing.T) {
	const silence = time.Second
	w := onStage(t, play{
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			say(w, twoTokens)
			<-time.After(silence)
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				conn.Close()
			}
		},
		"silent": func(w http.ResponseWriter, r *http.Request) { say(w, twoTokens); until(r) },
	}, "openai", "", setup{})
	_, _ = w.Try(secret, chat, ask("cut", streamed, bound(100)))
	leaving := open(t, w.Gateway, ask("silent", streamed, bound(100)))
	<-time.After(silence)
	leaving.Body.Close()
	w.Eventually("both counted", eventually, func() bool { return w.Metrics().Sum("llmgw_overhead_seconds_count") == 2 })
	m := w.Metrics()
	if got := m.Sum("llmgw_request_seconds_sum"); got < 2*silence.Seconds() {
		t.Fatalf("the calls took %v s, want both silences", got)
	}
	if got := m.Sum("llmgw_overhead_seconds_sum"); got > silence.Seconds()/2 {
		t.Errorf("got %v s of overhead, want nothing of what the provider was waited for", got)
	}
}
