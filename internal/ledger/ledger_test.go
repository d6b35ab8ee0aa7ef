package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"llmgw/internal/books"
	"llmgw/internal/tokens"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBubble runs a test with a ledger on virtual time.
func inBubble(t *testing.T, c Config, test func(t *testing.T, l *Ledger)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := New(c)
		test(t, l)
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func entry(team, model string, in, out tokens.Count) Entry {
	return Entry{
		RequestID: "req_1", Team: team, KeyID: team + "-prod", Model: model, Endpoint: "/v1/chat/completions",
		Provider: "openai", ProviderModel: model, Status: 200, Outcome: "completed", Reserved: in + 100,
		Usage: tokens.Usage{Input: in, CachedInput: in / 2, Output: out, Reasoning: out / 3}, MicroUSD: int64(in),
	}
}

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// stuck is a log that takes nothing until it is opened.
type stuck struct {
	lines
	open chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.open
	return s.lines.Write(p)
}

func TestRecordDoesNotWaitForASlowLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		booked := 0
		out := &stuck{open: make(chan struct{})}
		l := New(Config{Books: func(books.Record) { booked++ }, Logger: slog.New(slog.NewJSONHandler(out, nil)), MaxLines: 10})
		began := time.Now()
		for range 100 {
			l.Record(entry("search", "gpt-4o", 2, 1))
			synctest.Wait()
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("100 entries took %v", took)
		}
		close(out.open)
		synctest.Wait()
		if n := strings.Count(out.String(), `"msg":"request"`); n != 11 {
			t.Errorf("%d lines, want the one being written and ten that waited", n)
		}
		if n := strings.Count(out.String(), `"dropped":89`); n != 1 {
			t.Errorf("the log says %d times that 89 lines were dropped:\n%s", n, out.String())
		}
		l.Record(entry("search", "gpt-4o", 2, 1))
		synctest.Wait()
		if n := strings.Count(out.String(), `"msg":"request"`); n != 12 {
			t.Errorf("%d lines, want the next one to be written again", n)
		}
		if booked != 101 {
			t.Errorf("the books have %d requests, want all 101", booked)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestRefusedRequestsHaveABoundOfLines(t *testing.T) {
	var out lines
	c := Config{Logger: slog.New(slog.NewJSONHandler(&out, nil))}
	inBubble(t, c, func(t *testing.T, l *Ledger) {
		flood := func() {
			for range 1000 {
				l.Record(Entry{RequestID: "req_x", Status: 401, Outcome: invalid, Code: "invalid_api_key"})
				l.Record(Entry{RequestID: "req_y", Team: "search", KeyID: "k", Status: 429, Outcome: refused, Code: "rate_limit_exceeded"})
			}
			for range 150 {
				l.Record(entry("search", "gpt-4o", 2, 1))
			}
			synctest.Wait()
			time.Sleep(time.Second)
			synctest.Wait()
		}
		flood()
		flood()
		l.Record(Entry{RequestID: "req_alone", Status: 401, Outcome: invalid, Code: "invalid_api_key"})
		synctest.Wait()
	})
	for text, want := range map[string]int{
		`"request_id":"req_x"`:                                  2 * refusedLines,
		`"request_id":"req_y"`:                                  2 * refusedLines,
		`"request_id":"req_1"`:                                  300,
		`"request_id":"req_alone"`:                              1,
		`"requests":900,"status":401,"code":"invalid_api_key"}`: 2,
		`"requests":900,"status":429,"code":"rate_limit_exceeded","team":"search","key_id":"k"}`: 2,
	} {
		if got := strings.Count(out.String(), text); got != want {
			t.Errorf("%d lines have %s, want %d", got, text, want)
		}
	}
}

func TestARequestsLineHasItsFigures(t *testing.T) {
	var out lines
	c := Config{Logger: slog.New(slog.NewJSONHandler(&out, nil))}
	inBubble(t, c, func(_ *testing.T, l *Ledger) {
		e := entry("search", "gpt-4o", 10, 6)
		e.Total, e.Overhead, e.Estimated = 1500*time.Millisecond, 250*time.Microsecond, true
		l.Record(e)
	})
	var got map[string]any
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"level": "INFO", "msg": "request", "request_id": "req_1", "team": "search", "key_id": "search-prod", "model": "gpt-4o",
		"endpoint": "/v1/chat/completions", "provider": "openai", "provider_model": "gpt-4o", "status": 200.0, "outcome": "completed",
		"reserved_tokens": 110.0, "input_tokens": 10.0, "cached_input_tokens": 5.0, "output_tokens": 6.0, "reasoning_tokens": 2.0,
		"usage_estimated": true, "micro_usd": 10.0, "total_ms": 1500.0, "overhead_ms": 0.25,
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	for _, absent := range []string{"code", "cause", "limited_by", "first_token_ms", "trace_id"} {
		if _, ok := got[absent]; ok {
			t.Errorf("%s is there and says nothing", absent)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	l := New(Config{})
	defer func() { _ = l.Close(context.Background()) }()
	e := entry("search", "gpt-4o", 10, 6)
	e.Time = time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Record(e)
		}
	})
}

func TestTheBooksHaveEachRequestWhoseKeyIsKnown(t *testing.T) {
	var got []books.Record
	inBubble(t, Config{Books: func(r books.Record) { got = append(got, r) }}, func(_ *testing.T, l *Ledger) {
		l.Record(Entry{RequestID: "unknown", Status: 401, Outcome: invalid, Code: "invalid_api_key"})
		e := entry("search", "gpt-4o", 10, 6)
		e.Weighted, e.Charged, e.Wait, e.Late = 200, 32, 1500*time.Microsecond, true
		l.Record(e)
	})
	if len(got) != 1 {
		t.Fatalf("got %d records, want one", len(got))
	}
	r := got[0]
	if r.ID != "req_1" || r.Time.IsZero() || r.Input != 10 || r.CachedInput != 5 || r.Output != 6 || r.Reserved != 200 || r.Charged != 32 || r.USD != 10 || r.QueueMS != 1.5 || !r.Late {
		t.Errorf("got %+v", r)
	}
}
