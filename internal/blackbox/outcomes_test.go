package blackbox

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestEachEndingOfAStreamHasItsChargeAndItsOutcome(t *testing.T) {
	reset := func(w http.ResponseWriter) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}
	w := onStage(t, play{
		"complete":         func(w http.ResponseWriter, _ *http.Request) { say(w, twoTokens, usageChunk, doneChunk) },
		"uncounted":        func(w http.ResponseWriter, _ *http.Request) { say(w, twoTokens, doneChunk) },
		"ended":            func(w http.ResponseWriter, _ *http.Request) { say(w, twoTokens) },
		"reset":            func(w http.ResponseWriter, _ *http.Request) { say(w, twoTokens); reset(w) },
		"error-later":      func(w http.ResponseWriter, _ *http.Request) { say(w, twoTokens, errorChunk) },
		"error-then-reset": func(w http.ResponseWriter, _ *http.Request) { say(w, twoTokens, errorChunk); reset(w) },
		"error-first":      func(w http.ResponseWriter, _ *http.Request) { say(w, errorChunk) },
		"nothing":          func(w http.ResponseWriter, _ *http.Request) { say(w, "") },
	}, "openai", "", setup{})
	for _, s := range []struct {
		name          string
		status        int
		broken        bool
		errors        int // error events or documents that the client sees
		outcome       string
		input, output int
		estimated     bool
	}{
		{"complete", 200, false, 0, "completed", 11, 3, false},
		{"uncounted", 200, false, 0, "completed", promptTokens, 2, true},
		{"ended", 200, true, 1, "upstream_truncated", promptTokens, 2, true},
		{"reset", 200, true, 1, "upstream_truncated", promptTokens, 2, true},
		{"error-later", 200, false, 1, "upstream_error", promptTokens, 2, true},
		{"error-then-reset", 200, true, 1, "upstream_error", promptTokens, 2, true},
		{"error-first", 502, false, 1, "upstream_error", 0, 0, false},
		{"nothing", 502, false, 1, "upstream_error", 0, 0, false},
	} {
		a, err := w.Try(secret, chat, ask(s.name, streamed, bound(100)))
		if a.Status != s.status || (err != nil) != s.broken || strings.Count(a.Body, `"error":{`) != s.errors {
			t.Errorf("%s: got %d, %v, want %d, broken %v and %d errors\n%s", s.name, a.Status, err, s.status, s.broken, s.errors, a.Body)
		}
		if strings.Contains(a.Body, "[DONE]") != (s.outcome == "completed") {
			t.Errorf("%s: its end is not the provider's\n%s", s.name, a.Body)
		}
		w.ended(s.name, s.outcome, s.input, s.output, s.estimated)
	}
	w.settled()
}

func TestAClientThatLeavesPaysForWhatItHad(t *testing.T) {
	asked := make(chan struct{}, 1)
	w := onStage(t, play{
		"silent":    func(_ http.ResponseWriter, r *http.Request) { asked <- struct{}{}; until(r) },
		"midstream": func(w http.ResponseWriter, r *http.Request) { say(w, twoTokens); until(r) },
		"after-end": func(w http.ResponseWriter, r *http.Request) { say(w, twoTokens, usageChunk, doneChunk); until(r) },
	}, "openai", "", setup{})
	w.leaving("silent", "", asked)
	w.ended("silent", "client_gone", promptTokens, 0, true)
	w.leaving("midstream", " budget", nil)
	w.ended("midstream", "client_gone", promptTokens, 2, true)
	w.leaving("after-end", "[DONE]", nil)
	w.ended("after-end", "completed", 11, 3, false)
	w.settled()
}

func TestAClientThatLeavesBeforeItsCallWasSentPaysNothing(t *testing.T) {
	began := make(chan struct{}, 1)
	w := onStage(t, play{
		"turns": func(w http.ResponseWriter, r *http.Request) { began <- struct{}{}; say(w, twoTokens); until(r) },
	}, "openai", ", limits: {concurrency: 1}, max_wait: 20s", setup{models: "{name: waits, targets: [{provider: at-turns, model: turns}]}\n"})
	first := open(t, w.Gateway, ask("turns", streamed, bound(100)))
	<-began
	waits := make(chan struct{})
	go func() {
		defer close(waits)
		w.Eventually("in flight", eventually, func() bool { return w.Metrics().Sum("llmgw_inflight_requests") == 2 })
	}()
	w.leaving("waits", "", waits)
	w.ended("waits", "client_gone", 0, 0, false)
	first.Body.Close()
	w.ended("turns", "client_gone", promptTokens, 2, true)
	w.settled()
}

func TestThePoliciesForClientsThatLeave(t *testing.T) {
	parts := play{
		"goes-on": func(w http.ResponseWriter, _ *http.Request) {
			say(w, twoTokens)
			every := time.NewTicker(10 * time.Millisecond)
			defer every.Stop()
			for range 50 { // the gateway notices meanwhile that the client left
				<-every.C
				say(w, ": still here\n\n")
			}
			say(w, twoTokens, usageChunk, doneChunk)
		},
	}
	endless := play{
		"endless": func(w http.ResponseWriter, r *http.Request) {
			say(w, twoTokens)
			for r.Context().Err() == nil {
				say(w, strings.Repeat(": nothing\n\n", 1000))
			}
		},
		"quiet": func(w http.ResponseWriter, r *http.Request) { say(w, twoTokens); until(r) },
	}
	t.Run("drain reads to the end", func(t *testing.T) {
		w := onStage(t, parts, "openai", "", setup{server: "on_client_gone: drain"})
		w.leaving("goes-on", " budget", nil)
		w.ended("goes-on", "client_gone", 11, 3, false)
		w.settled()
	})
	t.Run("drain is bounded in bytes and in time", func(t *testing.T) {
		w := onStage(t, endless, "openai", "", setup{server: "on_client_gone: drain\ndrain: {max_time: 500ms, max_bytes: 64KiB}"})
		for _, name := range []string{"endless", "quiet"} {
			w.leaving(name, " budget", nil)
			w.ended(name, "client_gone", promptTokens, 2, true)
		}
		w.settled()
	})
	t.Run("charge_estimate charges all", func(t *testing.T) {
		endless["half"], endless["bare"] = begins(`{"choices":[`), begins("")
		w := onStage(t, endless, "openai", "", setup{server: "on_client_gone: charge_estimate"})
		w.leaving("quiet", " budget", nil)
		w.ended("quiet", "client_gone", promptTokens, 100-promptTokens, true)
		for _, name := range []string{"half", "bare"} {
			w.leavingADocument(name)
			w.ended(name, "client_gone", promptTokens, 100-promptTokens, true)
		}
		w.settled()
	})
}

// begins answers with the start of a document that never ends.
func begins(start string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, start) // the gateway may have left
		w.(http.Flusher).Flush()
		until(r)
	}
}

func TestWhoLeavesWhileTheProviderSaysWhyItFailedIsChargedNothing(t *testing.T) {
	refuses := begins(`{"error":{`)
	w := onStage(t, play{"refuses": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusBadRequest)
		refuses(w, r)
	}}, "openai", "", setup{})
	w.leavingADocument("refuses")
	w.ended("refuses", "client_gone", 0, 0, false)
	w.settled()
}

func TestWhoLeavesBetweenTwoTriesIsChargedNothing(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "{}", http.StatusServiceUnavailable)
	})
	w := start(t, setup{
		limits:    tokensLimit(),
		providers: "{name: at-busy, dialect: openai, base_url: " + server + "/v1, api_keys: [sk-p], retries: {attempts: 1}, max_wait: 90s}",
		models:    "{name: busy, targets: [{provider: at-busy}]}",
	})
	w.leavingADocument("busy")
	w.ended("busy", "client_gone", 0, 0, false)
	w.settled()
}

// leavingADocument asks for a document and leaves when the gateway has its
// header.
func (w *world) leavingADocument(name string) {
	w.t.Helper()
	ctx, leave := context.WithCancel(w.t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, "POST", w.URL+chat, strings.NewReader(ask(name, bound(100))))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	left := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			resp.Body.Close()
		}
		left <- err
	}()
	w.Eventually("answered: "+name, eventually, func() bool {
		return w.Metrics().Sum("llmgw_upstream_requests_total", "provider", "at-"+name) == 1
	})
	leave()
	if err := <-left; err == nil {
		w.t.Errorf("%s: an answer began", name)
	}
}

func TestEachPhaseHasItsTimeout(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deaf.Close() })
	w := onStage(t, play{
		"no-header":  func(_ http.ResponseWriter, r *http.Request) { until(r) },
		"no-event":   func(w http.ResponseWriter, r *http.Request) { say(w, ""); until(r) },
		"goes-quiet": func(w http.ResponseWriter, r *http.Request) { say(w, twoTokens); until(r) },
		"half": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"choices":[`)
			w.(http.Flusher).Flush()
			until(r)
		},
	}, "openai", ", timeouts: {connect: 400ms, first_byte: 800ms, idle: 800ms}", setup{
		providers: "{name: deaf, dialect: openai, base_url: \"https://" + deaf.Addr().String() + "/v1\", api_keys: [sk-p], retries: {attempts: 0}, timeouts: {connect: 400ms}}\n",
		models:    "{name: no-handshake, targets: [{provider: deaf}]}\n",
	})
	for _, s := range []struct {
		name, more    string
		status        int
		broken        bool
		input, output int
	}{
		{"no-handshake", streamed, 504, false, 0, 0},
		{"no-header", streamed, 504, false, promptTokens, 0},
		{"no-event", streamed, 504, false, promptTokens, 0},
		{"goes-quiet", streamed, 200, true, promptTokens, 2},
		{"half", `"stream":false`, 504, false, promptTokens, 0},
	} {
		a, err := w.Try(secret, chat, ask(s.name, s.more, bound(100)))
		if a.Status != s.status || (err != nil) != s.broken || !strings.Contains(a.Body, "upstream_timeout") {
			t.Errorf("%s: got %d, %v, want %d, broken %v and to be told of the timeout\n%s", s.name, a.Status, err, s.status, s.broken, a.Body)
		}
		w.ended(s.name, "timeout", s.input, s.output, s.input > 0)
	}
	w.settled()
}

// TestASlowReaderHoldsTheProviderAndLittleMemory opens streams that nobody
// reads, of a provider that never stops by itself.
func TestASlowReaderHoldsTheProviderAndLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector's memory is not the gateway's: make test runs this")
	}
	const streams = 20
	progress := make(chan int64, 1<<16)
	chunk := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + strings.Repeat("the budget ", 3000) + "\"}}]}\n\n"
	w := onStage(t, play{
		"torrent": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				say(w, chunk)
				progress <- int64(len(chunk))
			}
		},
	}, "openai", "", setup{alone: true})
	heap := func() float64 { return w.Metrics().Sum("go_memstats_heap_inuse_bytes") }
	before := heap()
	for range streams {
		defer open(t, w.Gateway, ask("torrent", streamed, bound(100))).Body.Close()
	}
	var total int64
	for quiet := time.NewTimer(time.Second); ; {
		select {
		case n := <-progress:
			total += n
			quiet.Reset(time.Second)
			continue
		case <-quiet.C:
		}
		break
	}
	held := (heap() - before) / streams
	t.Logf("the provider was stopped after %d KiB a stream, which fill the sockets; the gateway holds %.0f KiB of heap for each", total/streams/1024, held/1024)
	if held > 1<<20 {
		t.Errorf("%.0f KiB are held for each stream, want less than 1024", held/1024)
	}
}
