package blackbox

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// ofBackground is a call for 4 tokens read and 3 written, in the background, that
// reserves 100: "x" is counted as 8, as a chat's one message of one word.
const ofBackground = `{"model":"sim-in4-out3","input":"x","max_output_tokens":92,"background":true`

// inBackground begins a response and returns its id.
func (w *world) inBackground(more string) string {
	w.t.Helper()
	a := w.Post(secret, "/v1/responses", ofBackground+more+"}")
	var made struct{ ID, Status string }
	if err := json.Unmarshal([]byte(a.Body), &made); err != nil || a.Status != http.StatusOK || made.ID == "" || made.Status == "completed" {
		w.t.Fatalf("got %d, %v\n%s", a.Status, err, a.Body)
	}
	return made.ID
}

// left is what is left of the budget now, open reservations taken.
func (w *world) left() float64 { return w.Limit("search", "budget").Remaining }

func TestAResponseInTheBackgroundIsChargedByItsEnd(t *testing.T) {
	w := start(t, setup{limits: monthly("budget", "tokens", 10_000) + "\n{name: slots, unit: concurrency, amount: 2}"})
	path := "/v1/responses/" + w.inBackground("")
	w.Eventually("ended", eventually, func() bool { return w.Metrics().Sum("llmgw_inflight_requests") == 0 })
	if got, open := w.left(), w.Metrics().Sum("llmgw_reservations_open"); got != 9900 || open != 1 {
		t.Errorf("while it goes on: %v are left and %v reservations open, want 9900 and 1", got, open)
	}
	if got := w.Limit("search", "slots").Remaining; got != 1 {
		t.Errorf("while it goes on: %v slots are free, want 1", got)
	}
	for polls := 0; ; polls++ {
		a := w.send("GET", path, secret, "")
		if a.Status != 200 || polls > 10 {
			t.Fatalf("got %d after %d polls\n%s", a.Status, polls, a.Body)
		}
		if strings.Contains(a.Body, `"status":"completed"`) {
			break
		}
		if got := w.left(); got != 9900 {
			t.Errorf("asked for too early: %v are left, want 9900", got)
		}
	}
	if got := w.left(); got != 9993 {
		t.Errorf("at its end: %v are left, want all but the 7 that it used", got)
	}
	w.send("GET", path, secret, "")
	w.settled()
	if got := w.left(); got != 9993 {
		t.Errorf("asked for again: %v are left, want no more charged", got)
	}
	if got := w.Metrics().Sum("llmgw_settlements_estimated_total"); got != 0 {
		t.Errorf("%v settlements were estimated, want none", got)
	}
}

func TestAResponseWhoseEndIsNotSeenIsChargedWhole(t *testing.T) {
	w := start(t, setup{limits: monthly("budget", "tokens", 10_000)})
	id := w.inBackground("")
	if a := w.send("GET", "/v1/responses/"+id+"/input_items", secret, ""); a.Status >= 500 {
		t.Errorf("its input: got %d\n%s", a.Status, a.Body)
	}
	if got := w.left(); got != 9900 {
		t.Errorf("what it was asked ends nothing: %v are left, want 9900", got)
	}
	if a := w.send("DELETE", "/v1/responses/"+id, secret, ""); a.Status != 200 {
		t.Fatalf("got %d\n%s", a.Status, a.Body)
	}
	w.settled()
	if got := w.left(); got != 9900 {
		t.Errorf("deleted before its end: %v are left, want 9900", got)
	}
}

func TestAGatewayThatStopsChargesWhatGoesOnWhole(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, limits: monthly("budget", "tokens", 10_000)})
	first, other := w.all[0], w.all[1]
	w.inBackground("")
	w.all, w.Gateway = w.all[1:], other
	if code := first.Stop(); code != 0 {
		t.Errorf("it stopped with %d, want 0", code)
	}
	w.Eventually("settled", eventually, func() bool { return w.Limit("search", "budget").Open == 0 })
	if got := w.left(); got != 9900 {
		t.Errorf("%v are left, want 9900", got)
	}
}

func TestAResponseThatIsWaitedForOrSeenToItsEndIsChargedByIt(t *testing.T) {
	w := start(t, setup{limits: monthly("budget", "tokens", 10_000)})
	left := 10_000.0
	for what, more := range map[string]string{"waited for": `,"background":false`, "seen in a stream": `,"stream":true`} {
		body := strings.Replace(ofBackground, `,"background":true`, "", 1) + more + "}"
		if what != "waited for" {
			body = ofBackground + more + "}"
		}
		if a := w.Post(secret, "/v1/responses", body); a.Status != http.StatusOK || a.Header.Get("X-LLMGW-Estimated-Tokens") != "100" {
			t.Fatalf("%s: %d, estimated %s: %s", what, a.Status, a.Header.Get("X-LLMGW-Estimated-Tokens"), a.Body)
		}
		w.settled()
		if left -= 7; w.left() != left {
			t.Errorf("%s: %v are left, want %v", what, w.left(), left)
		}
	}
}
