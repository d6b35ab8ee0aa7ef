package blackbox

import (
	"strings"
	"testing"
)

func TestADocumentThatBreaksIsRefused(t *testing.T) {
	w := start(t, setup{limits: tokensLimit(), provider: "retries: {attempts: 0}"})
	for _, model := range []string{"sim-cut", "sim-drop"} {
		a := w.Post(secret, chat, ask(model))
		if a.Status != 502 || a.Code() != "upstream_error" || !strings.Contains(a.Body, `"code":"upstream_error"`) {
			t.Errorf("%s: got %d %q, want 502 upstream_error\n%s", model, a.Status, a.Code(), a.Body)
		}
		if strings.Contains(a.Body, "chatcmpl") {
			t.Errorf("%s: the broken part was passed on: %s", model, a.Body)
		}
	}
	w.settled()
}

func TestALargeDocumentThatBreaksIsBrokenForTheClientToo(t *testing.T) {
	w := start(t, setup{limits: tokensLimit(), provider: "retries: {attempts: 0}"})
	if a, err := w.Try(secret, chat, ask("sim-cut-size400k")); err == nil && a.Status == 200 {
		t.Errorf("the client got %d bytes as if they were all", len(a.Body))
	}
	if a := w.Post(secret, chat, ask("sim-size400k")); a.Status != 200 || len(a.Body) < 400<<10 {
		t.Errorf("a whole one: got %d and %d bytes", a.Status, len(a.Body))
	}
	w.settled()
}

func TestWhatIsNotJSONIsSettledByEstimate(t *testing.T) {
	w := start(t, setup{limits: tokensLimit()})
	for i, model := range []string{"sim-badjson", "sim-html", "sim-nousage"} {
		if a := w.Post(secret, chat, ask(model)); a.Status != 200 {
			t.Errorf("%s: got %d, want what the provider sent", model, a.Status)
		}
		w.Eventually("counted: "+model, eventually, func() bool {
			return w.Metrics().Sum("llmgw_settlements_estimated_total") == float64(i+1)
		})
	}
	w.settled()
}
