package fakellm

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func TestStatsTellWhatWasSeen(t *testing.T) {
	w := newWorld(t, Options{RPM: 4, Record: 3})
	for _, model := range []string{"sim-in10-out5", "sim-in10-out5", "sim-in10-out5-nousage", "sim-fail500", "sim"} {
		w.text("/v1/chat/completions?x=1", `{"model":"`+model+`","messages":[]}`)
	}
	w.idle()
	resp, err := http.Get(w.url + "/sim/stats")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got Stats
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Requests != 5 || got.Done != 3 || got.Failed != 1 || got.Limited != 1 || got.InFlight != 0 || got.MaxInFlight != 1 {
		t.Errorf("stats = %+v", got)
	}
	if got.InputTokens != 30 || got.OutputTokens != 15 {
		t.Errorf("tokens = %d + %d, want 30 + 15: what was used counts though it was not told", got.InputTokens, got.OutputTokens)
	}
	if got.Models["sim-in10-out5"] != 2 || got.Models["sim"] != 0 {
		t.Errorf("models = %v, want those that were let in", got.Models)
	}
	if len(got.Last) != 3 {
		t.Fatalf("%d requests are remembered, want the last 3", len(got.Last))
	}
	last := got.Last[2]
	if last.Outcome != Limited || last.Model != "sim" || last.Query != "x=1" || last.Path != "/v1/chat/completions" ||
		last.Body != `{"model":"sim","messages":[]}` || last.Header.Get("Content-Type") != "application/json" || last.Ended.Before(last.Began) {
		t.Errorf("the last request = %+v", last)
	}
}

func TestAResetForgets(t *testing.T) {
	w := newWorld(t, Options{RPM: 1})
	w.text("/v1/chat/completions", `{"model":"sim","messages":[]}`)
	w.idle()
	resp, err := http.Post(w.url+"/sim/reset", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := w.Stats(); resp.StatusCode != http.StatusNoContent || got.Requests != 0 || len(got.Last) != 0 {
		t.Errorf("after a reset (%d): %+v", resp.StatusCode, got)
	}
	if got := w.post("/v1/chat/completions", `{"model":"sim","messages":[]}`).StatusCode; got != http.StatusOK {
		t.Errorf("the limit still knows: %d", got)
	}
	if resp, err = http.Get(w.url + "/sim/reset"); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a GET resets: %d", resp.StatusCode)
	}
}

func TestNothingIsRememberedWhereThatIsNotWanted(t *testing.T) {
	w := newWorld(t, Options{Record: -1})
	w.text("/v1/chat/completions", `{"model":"sim","messages":[]}`)
	if got := w.Stats(); got.Requests != 1 || len(got.Last) != 0 {
		t.Errorf("%d requests, %d remembered, want 1 and none", got.Requests, len(got.Last))
	}
}

func TestManyAtOnceAreAllCounted(t *testing.T) {
	w := newWorld(t, Options{})
	const callers, each = 8, 25
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				resp, err := http.Post(w.url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"sim-in3-out2","messages":[],"stream":true}`))
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Error(err)
				}
				resp.Body.Close()
			}
		})
	}
	all.Wait()
	w.idle()
	got := w.Stats()
	if got.Done != callers*each || got.InputTokens != 3*callers*each || got.OutputTokens != 2*callers*each {
		t.Errorf("stats = %+v, want %d requests of 3 + 2 tokens", got, callers*each)
	}
	if got.MaxInFlight > callers {
		t.Errorf("%d at once, want at most %d", got.MaxInFlight, callers)
	}
}
