package proxy

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/concurrency"
	"llmgw/internal/fault"
)

// reading is a Gateway that can read bodies, of which all together have size bytes.
func reading(size int64) *Gateway {
	return &Gateway{memory: concurrency.NewPool(size), gate: concurrency.NewGate(1)}
}

// aBody is a body that may have limit bytes, of a gateway with memory enough.
func aBody(limit int64) *body {
	return &body{gateway: reading(100 << 20), team: "a", limit: limit}
}

// post is a request with a body in a Content-Encoding.
func post(encoding string, sent []byte) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", bytes.NewReader(sent))
	r.Header.Set("Content-Encoding", encoding)
	return r
}

func zipped(t *testing.T, data string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// wantOverloaded checks that err refuses a body for want of memory.
func wantOverloaded(t *testing.T, what string, err error) {
	t.Helper()
	if e := fault.From(err); e == nil || e.Code != fault.Overloaded || e.Wait <= 0 || e.NoRetry {
		t.Errorf("%s: got %v, want it refused for now", what, err)
	}
}

func TestTheBodiesOfATeamHaveABoundAndLeaveRoomForOthers(t *testing.T) {
	g := reading(8 << 20)
	read := func(team string, r *http.Request) (*body, error) {
		b := &body{gateway: g, team: team, limit: 2 << 20}
		_, err := b.read(httptest.NewRecorder(), r)
		return b, err
	}
	megabyte := strings.Repeat(" ", 1<<20-1)
	var bodies []*body
	var refused error
	for range 10 {
		b, err := read("greedy", post("", []byte(megabyte)))
		if err != nil {
			refused = err
			b.release()
			break
		}
		bodies = append(bodies, b)
	}
	wantOverloaded(t, "more than the share of one team", refused)
	if len(bodies) != 6 {
		t.Errorf("%d bodies of 1 MiB were read within 8 MiB, want 6", len(bodies))
	}
	b, err := read("modest", post("", []byte(megabyte)))
	if err != nil {
		t.Errorf("another team's body: %v", err)
	}
	b.release()
	b, err = read("greedy", post("gzip", zipped(t, megabyte)))
	wantOverloaded(t, "one that is small only while it is compressed", err)
	b.release()
	for _, b := range bodies {
		b.release()
	}
	if held := g.memory.Held(); held != 0 {
		t.Errorf("%d bytes are held by no body", held)
	}
}

func TestAnnouncedBytesTakeNoMemory(t *testing.T) {
	g := reading(96 << 20)
	b := &body{gateway: g, team: "a", limit: 32 << 20}
	r := post("", []byte("a few"))
	r.ContentLength = 30 << 20 // of which the rest never comes
	if _, err := b.read(httptest.NewRecorder(), r); err != nil {
		t.Fatal(err) // the reader ends: net/http's would say that it was cut
	}
	if held := g.memory.Held(); held > maxUnseen {
		t.Errorf("%d bytes are held for a body of which 5 have come", held)
	}
}

func TestABodyHoldsMemoryUntilItsCallHasAnAnswerWhateverBecomesOfIt(t *testing.T) {
	large := strings.Repeat("a", 1<<20)
	for _, s := range []struct {
		what     string
		request  *http.Request
		code     fault.Code // empty: it is read
		keptSent bool
	}{
		{"plain", post("", []byte(large)), "", false},
		{"compressed well", post("gzip", zipped(t, large)), "", true},
		{"compressed, and small", post("gzip", zipped(t, "abc")), "", false},
		{"compressed, larger than allowed", post("gzip", zipped(t, large+large+large)), fault.RequestTooLarge, true},
		{"no gzip", post("gzip", []byte(large)), fault.InvalidRequest, true},
		{"an unknown coding", post("rar", []byte(large)), fault.InvalidRequest, true},
	} {
		g := reading(100 << 20)
		b := &body{gateway: g, team: "a", limit: 2 << 20}
		data, err := b.read(httptest.NewRecorder(), s.request)
		if e := fault.From(err); (e == nil) != (s.code == "") || e != nil && e.Code != s.code {
			t.Errorf("%s: got %v, want %q", s.what, err, s.code)
		}
		if (b.sent != nil) != s.keptSent {
			t.Errorf("%s: the body as it was sent: %d bytes are kept", s.what, len(b.sent))
		}
		if held := g.memory.Held(); held < int64(len(data)+len(b.sent)) {
			t.Errorf("%s: %d bytes are held, want those of the body", s.what, held)
		}
		b.release()
		b.release()
		if held := g.memory.Held(); held != 0 {
			t.Errorf("%s: %d bytes are held after its end", s.what, held)
		}
	}
}

func TestACallHoldsItsBodyUntilTheProviderHasAnswered(t *testing.T) {
	prompt := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("word ", 50_000) + `"}]}`
	var began chan struct{} // made in the house, so that waiting for it is idle there
	provider := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-began
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	inHouse(t, setting{}, provider, func(h *house) {
		began = make(chan struct{})
		a := h.open(chatPath, prompt)
		synctest.Wait()
		if held := h.memory.Held(); held < int64(len(prompt)) {
			t.Errorf("%d bytes are held while the provider has not answered, want the %d of the body", held, len(prompt))
		}
		close(began)
		a.until("data:")
		if held := h.memory.Held(); held != 0 {
			t.Errorf("%d bytes are held while the answer streams, want none", held)
		}
		a.leave()
		h.idle()
		h.memory.Take("t", 12<<20) // what all requests of the team have by now
		for path, shape := range map[string]string{chatPath: `"code":"overloaded"`, "/v1/messages": `"error_code":"overloaded"`} {
			got := h.ask(path, prompt)
			if got.status != 503 || got.header.Get("X-LLMGW-Error-Code") != "overloaded" || got.header.Get("Retry-After") != "1" {
				t.Errorf("%s: got %d %v, want 503 overloaded for a second", path, got.status, got.header)
			}
			if !strings.Contains(got.body, shape) {
				t.Errorf("%s: got %s, want %s", path, got.body, shape)
			}
		}
		if held := h.memory.Held(); held != 12<<20 {
			t.Errorf("%d bytes are held, want those of before", held)
		}
	})
}

func TestACallThatWaitsKeepsItsBodyAsItWasSent(t *testing.T) {
	prompt := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 100_000) + `"}]}`
	sent := zipped(t, prompt)
	var got []byte
	provider := func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
	}
	waits := setting{rules: func(r *Rules) {
		l := houseLimit(budget.Requests)
		l.Place, l.Scope, l.Owner, l.Name, l.Amount, l.Burst, l.Wait, l.MaxWait = "gateway", budget.Gateway, "", "rpm", 1, 1, true, time.Hour
		r.Limits = []*budget.Limit{l}
	}}
	inHouse(t, waits, provider, func(h *house) {
		if first := h.ask(chatPath, `{"model":"m","messages":[]}`); first.status != 200 {
			t.Fatalf("got %d %s", first.status, first.body)
		}
		a := h.open(chatPath, string(sent), "Content-Encoding", "gzip")
		time.Sleep(time.Second)
		if held := h.memory.Held(); held == 0 || held > int64(len(prompt))/keepSent {
			t.Errorf("%d bytes are held while the call waits, want about the %d that were sent", held, len(sent))
		}
		if end := a.rest(); end.status != 200 {
			t.Errorf("got %d %s", end.status, end.body)
		}
		if string(got) != prompt {
			t.Errorf("the provider got %d bytes, want the %d of the decoded body", len(got), len(prompt))
		}
		if held := h.memory.Held(); held != 0 {
			t.Errorf("%d bytes are held at the end", held)
		}
	})
}
