package blackbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const streamed = `"stream":true`

// spent waits until the call is settled and returns what team search has used
// of its limit.
func (w *world) spent(name string) int {
	w.t.Helper()
	w.Eventually("settled", 5*time.Second, func() bool { return w.Metrics().Sum("llmgw_reservations_open") == 0 })
	l := w.Limit("search", name)
	return int(l.Amount - l.Remaining)
}

// direct asks the provider itself, as the gateway does.
func (w *world) direct(body string) string {
	w.t.Helper()
	resp, err := http.Post(w.provider.URL+chat, "application/json", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func tokensLimit() string { return monthly("tokens", "tokens", 100_000) }

func TestC1AStreamIsSettledByItsLastChunk(t *testing.T) {
	w := start(t, setup{limits: tokensLimit()})
	a := w.Post(secret, chat, ask("sim-in10-out20", streamed, `"stream_options":{"include_usage":true}`))
	if a.Status != 200 || !strings.Contains(a.Body, `"prompt_tokens":10`) || !strings.Contains(a.Body, "[DONE]") {
		t.Fatalf("got %d\n%s", a.Status, a.Body)
	}
	if got := w.spent("tokens"); got != 30 {
		t.Errorf("charged %d, want the 30 that the provider reported", got)
	}
	w.settled()
}

func TestC2UsageIsAskedForAndHidden(t *testing.T) {
	for _, model := range []string{"sim-in10-out20", "sim-in10-out20-unasked", "sim-in10-out20-onfinish", "sim-in10-out20-continuous"} {
		t.Run(model, func(t *testing.T) {
			w := start(t, setup{limits: tokensLimit()})
			a := w.Post(secret, chat, ask(model, streamed))
			if a.Status != 200 || !strings.Contains(a.Body, "[DONE]") {
				t.Fatalf("got %d\n%s", a.Status, a.Body)
			}
			if strings.Contains(a.Body, `"choices":[]`) || strings.Contains(a.Body, "prompt_tokens") {
				t.Errorf("the client sees usage that it did not ask for:\n%s", a.Body)
			}
			if got := w.spent("tokens"); got != 30 {
				t.Errorf("charged %d, want 30", got)
			}
			seen := w.provider.Saw(model)
			if len(seen) != 1 || !strings.Contains(seen[0].Body, `"include_usage":true`) {
				t.Errorf("the provider was not asked for usage: %+v", seen)
			}
			w.settled()
		})
	}
}

func TestC3TheClientsStreamOptionsAreMerged(t *testing.T) {
	w := start(t, setup{})
	for _, options := range []string{`{"include_obfuscation":false}`, `{"include_usage":false,"include_obfuscation":false}`, `{}`, `null`} {
		model := fmt.Sprintf("sim-out1-tag%d", len(options))
		w.Post(secret, chat, ask(model, streamed, `"stream_options":`+options))
		body := w.provider.Saw(model)[0].Body
		if !strings.Contains(body, `"include_usage":true`) || strings.Contains(body, `"include_usage":false`) {
			t.Errorf("%s: usage is not asked for: %s", options, body)
		}
		if strings.Contains(options, "obfuscation") && !strings.Contains(body, `"include_obfuscation":false`) {
			t.Errorf("%s: the client's own option is lost: %s", options, body)
		}
	}
}

// One team's refused calls are no proof for others: in internal/upstream
// TestSeveralTeamsAreNeededToSpareOthersTheRefusal has what several prove.
func TestC5AProviderThatRefusesTheOptionIsAskedWithoutIt(t *testing.T) {
	w := start(t, setup{limits: tokensLimit() + "\n" + monthly("requests", "requests", 100)})
	for range 2 {
		if a := w.Post(secret, chat, ask("sim-in10-out20-noopts", streamed)); a.Status != 200 {
			t.Fatalf("got %d\n%s", a.Status, a.Body)
		}
	}
	if got := w.spent("requests"); got != 2 {
		t.Errorf("charged %d requests, want 2: the second try is the same request", got)
	}
	if got := len(w.provider.Saw("sim-in10-out20-noopts")); got != 4 {
		t.Errorf("the provider saw %d calls, want 4: each with the option and without", got)
	}
	if got := w.Metrics().Sum("llmgw_settlements_estimated_total"); got != 2 {
		t.Errorf("got %v settlements by estimate, want 2", got)
	}
	w.settled()
}

func TestC8WithoutUsageWhatCameIsCounted(t *testing.T) {
	w := start(t, setup{limits: tokensLimit()})
	a := w.Post(secret, chat, ask("sim-out500-nousage", streamed))
	if a.Status != 200 {
		t.Fatalf("got %d\n%s", a.Status, a.Body)
	}
	if got := w.spent("tokens"); got < 450 || got > 700 {
		t.Errorf("charged %d, want the prompt and about the 500 tokens of the text", got)
	}
	w.settled()
}

func TestC9C10EveryFramingHasTheSameUsageAndTheSameBytes(t *testing.T) {
	asked := `"stream_options":{"include_usage":true}`
	for _, how := range []string{"bytes", "crlf", "cr", "bom", "comments", "nospace", "lines", "noblank", "wide-bytes"} {
		t.Run(how, func(t *testing.T) {
			w := start(t, setup{limits: tokensLimit()})
			body := ask("sim-in10-out20-"+how, streamed, asked)
			a := w.Post(secret, chat, body)
			if want := w.direct(body); len(a.Body) != len(want) || shape(a.Body) != shape(want) {
				t.Errorf("the bytes differ:\n%q\nwant\n%q", a.Body, want)
			}
			if got := w.spent("tokens"); got != 30 {
				t.Errorf("charged %d, want 30", got)
			}
			w.settled()
		})
	}
}

// shape is a stream without what differs from answer to answer: its digits.
func shape(stream string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'f' {
			return '#'
		}
		return r
	}, stream)
}

func TestC11AnEventOfTwoMegabytesPassesAndUsageAfterItCounts(t *testing.T) {
	w := start(t, setup{limits: tokensLimit()})
	a := w.Post(secret, chat, ask("sim-in10-out20-report400000-big2m", streamed))
	if len(a.Body) < 2<<20 || !strings.Contains(a.Body, "[DONE]") {
		t.Fatalf("got %d bytes, want the whole event", len(a.Body))
	}
	if got := w.spent("tokens"); got != 400_010 {
		t.Errorf("charged %d, want 400,010", got)
	}
	w.settled()
}

func TestC19AStreamThatTheProviderCutsEndsVisibly(t *testing.T) {
	w := start(t, setup{limits: tokensLimit()})
	for _, how := range []string{"cut5", "end5"} {
		a, err := w.Try(secret, chat, ask("sim-in10-out40-"+how, streamed))
		if err == nil {
			t.Errorf("%s: the connection ended cleanly", how)
		}
		if strings.Contains(a.Body, "[DONE]") {
			t.Errorf("%s: the client got a [DONE] that nobody sent", how)
		}
		if !strings.Contains(a.Body, `"error"`) {
			t.Errorf("%s: the client got no error event:\n%s", how, a.Body)
		}
	}
	if got := w.Metrics().Sum("llmgw_requests_total", "outcome", "upstream_truncated"); got != 2 {
		t.Errorf("got %v truncated, want 2", got)
	}
	if got := w.spent("tokens"); got < 2*(promptTokens+3) || got > 2*(promptTokens+20) {
		t.Errorf("charged %d, want two prompts and what came", got)
	}
	w.settled()
}

func TestC21TheFirstChunkIsNotHeldBack(t *testing.T) {
	w := start(t, setup{})
	ctx, cancel := context.WithTimeout(t.Context(), eventually)
	defer cancel()
	resp, err := send(ctx, w.Gateway, chat, ask("sim-out2-chunks2-every1h", streamed))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		t.Errorf("the first byte, an hour before the second chunk: %v", err)
	}
}

func TestAStreamOf300ChunksKeepsItsBytesAndItsTiming(t *testing.T) {
	if testing.Short() {
		t.Skip("a race detector slows the gateway alone: make test runs this")
	}
	w := start(t, setup{alone: true})
	body := ask("sim-out300-every10ms", streamed, `"stream_options":{"include_usage":true}`)
	var got string
	w.withinReach(5, func() (longest, reference time.Duration) {
		var done sync.WaitGroup
		done.Go(func() {
			resp, err := http.Post(w.provider.URL+chat, "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			_, reference = readTimed(t, resp)
		})
		resp, err := w.Open(secret, chat, body)
		if err != nil {
			t.Fatal(err)
		}
		got, longest = readTimed(t, resp)
		done.Wait()
		return longest, reference
	})
	if chunks := strings.Count(got, "data: "); chunks < 300 {
		t.Errorf("got %d chunks, want 300 and more", chunks)
	}
	if want := w.direct(ask("sim-out300", streamed, `"stream_options":{"include_usage":true}`)); shape(got) != shape(strings.ReplaceAll(want, "sim-out300", "sim-out300-every10ms")) {
		t.Error("the bytes are not those of the provider")
	}
}

// readTimed reads a stream to its end, and tells the longest time between two
// reads of it.
func readTimed(t *testing.T, resp *http.Response) (stream string, longest time.Duration) {
	t.Helper()
	defer resp.Body.Close()
	var got bytes.Buffer
	last := time.Now()
	buf := make([]byte, 4096)
	for {
		n, err := resp.Body.Read(buf)
		now := time.Now()
		if got.Len() > 0 {
			longest = max(longest, now.Sub(last))
		}
		last = now
		got.Write(buf[:n])
		if err == io.EOF {
			return got.String(), longest
		}
		if err != nil {
			t.Error(err)
			return got.String(), longest
		}
	}
}

func TestWhetherAStreamComesIsToldByItsType(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || bytes.Contains(body, []byte("stream_options")) {
			http.Error(w, `{"error":{"message":"unexpected"}}`, http.StatusTeapot)
			return
		}
		say(w, twoTokens, usageChunk, doneChunk) // a server that streams unasked
	})
	w := start(t, setup{
		limits:    tokensLimit(),
		providers: "{name: lax, dialect: openai, base_url: " + server + "/v1, api_keys: [sk-p], retries: {attempts: 0}}",
		models:    "{name: lax, targets: [{provider: lax}]}",
	})
	a, err := w.Try(secret, chat, ask("lax"))
	if err != nil || a.Status != 200 || a.Body != twoTokens+usageChunk+doneChunk {
		t.Errorf("got %d, %v\n%s", a.Status, err, a.Body)
	}
	w.ended("lax", "completed", 11, 3, false)
	w.settled()
}
