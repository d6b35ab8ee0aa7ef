package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"llmgw/internal/shared"
	"llmgw/internal/tokens"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flaky is a store that can be away, with and without having done what it was
// asked for.
type flaky struct {
	shared.Memory
	mu       sync.Mutex
	away     bool
	loseNext int // answers to lose after doing the work
	calls    int
}

var errAway = errors.New("connection refused")

func (f *flaky) set(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

func (f *flaky) AddOnce(ctx context.Context, name, writer string, batch int64, deltas map[string]int64, ttl time.Duration) error {
	f.mu.Lock()
	away, lose := f.away, f.loseNext > 0
	f.calls++
	if lose {
		f.loseNext--
	}
	f.mu.Unlock()
	if away {
		return errAway
	}
	if err := f.Memory.AddOnce(ctx, name, writer, batch, deltas, ttl); err != nil {
		return err
	}
	if lose {
		return context.DeadlineExceeded
	}
	return nil
}

// inBubble runs a test with a ledger on virtual time.
func inBubble(t *testing.T, c Config, test func(t *testing.T, l *Ledger, store *flaky)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := new(flaky)
		c.Store, c.Writer = store, "gw1"
		l := New(c)
		test(t, l, store)
		store.set(false)
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

func rows(t *testing.T, l *Ledger, from, to time.Time, groupBy ...string) []Row {
	t.Helper()
	got, err := l.Usage(t.Context(), from, to, groupBy)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestUsageHasWhatIsStillInMemory(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, l *Ledger, _ *flaky) {
		l.Record(entry("search", "gpt-4o", 10, 6))
		l.Record(entry("search", "gpt-4o", 20, 3))
		l.Record(entry("ads", "mini", 4, 0))
		refusal := entry("ads", "mini", 0, 0)
		refusal.Outcome, refusal.LimitedBy = refused, "team/ads/tpm"
		l.Record(refusal)
		listing := entry("ads", "other", 0, 0)
		listing.Provider = ""
		l.Record(listing)
		unseen := entry("ads", "mini", 0, 0) // its client left before it was known who answers
		unseen.Provider, unseen.Usage.Input = "", 5
		l.Record(unseen)
		now := time.Now()
		for _, c := range []struct {
			groupBy []string
			want    []Row
		}{
			{[]string{"team", "model"}, []Row{
				{"ads", "mini", 2, 9, 2, 0, 0, 4},
				{"search", "gpt-4o", 2, 30, 15, 9, 3, 30},
			}},
			{[]string{"model"}, []Row{{"", "gpt-4o", 2, 30, 15, 9, 3, 30}, {"", "mini", 2, 9, 2, 0, 0, 4}}},
			{[]string{"team"}, []Row{{"ads", "", 2, 9, 2, 0, 0, 4}, {"search", "", 2, 30, 15, 9, 3, 30}}},
			{nil, []Row{{"", "", 4, 39, 17, 9, 3, 34}}},
		} {
			if got := rows(t, l, now.Add(-time.Minute), now.Add(time.Second), c.groupBy...); !slices.Equal(got, c.want) {
				t.Errorf("by %v: %+v, want %+v", c.groupBy, got, c.want)
			}
		}
		if _, err := l.Usage(t.Context(), now, now, []string{"moon"}); err == nil {
			t.Error("usage by moon is no error")
		}
	})
}

func TestARowIsJSONAsTheProductSays(t *testing.T) {
	got, err := json.Marshal(Row{"search", "gpt-4o", 2, 30, 15, 9, 3, 1_250_000})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"team":"search","model":"gpt-4o","requests":2,"input_tokens":30,"cached_input_tokens":15,"output_tokens":9,"reasoning_tokens":3,"usd":1.25}`
	if string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, err = json.Marshal(Row{Team: "search", Requests: 1}); err != nil || !strings.HasPrefix(string(got), `{"team":"search","model":"","requests":1,`) {
		t.Errorf("a call without a model: got %s, %v", got, err)
	}
	for micros, want := range map[Dollars]string{0: "0", 1: "0.000001", 999_999: "0.999999", 3_000_000: "3", -1_500_000: "-1.5", 1<<63 - 1: "9223372036854.775807"} {
		if got, _ := json.Marshal(micros); string(got) != want {
			t.Errorf("%d micro-dollars are %s, want %s", micros, got, want)
		}
	}
}

func TestTotalsOfTwoGatewaysAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(shared.Memory)
		a, b := New(Config{Store: store, Writer: "a"}), New(Config{Store: store, Writer: "b"})
		began := time.Now()
		var all sync.WaitGroup
		for _, l := range []*Ledger{a, b} {
			for range 4 {
				all.Go(func() {
					for range 100 {
						l.Record(entry("search", "gpt-4o", 3, 1))
						time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
					}
				})
			}
		}
		all.Wait()
		time.Sleep(time.Second)
		want := []Row{{"search", "", 800, 2400, 800, 800, 0, 2400}}
		for _, l := range []*Ledger{a, b} {
			if got := rows(t, l, began, time.Now().Add(time.Second), "team"); !slices.Equal(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAnAnswerThatIsLostCountsOnce(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, l *Ledger, store *flaky) {
		began := time.Now()
		for i := range 20 {
			store.mu.Lock()
			store.loseNext = i % 3
			store.mu.Unlock()
			l.Record(entry("search", "gpt-4o", 1, 0))
			time.Sleep(900 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		if got := rows(t, l, began, time.Now().Add(time.Second)); len(got) != 1 || got[0].Requests != 20 || got[0].InputTokens != 20 {
			t.Errorf("%+v, want 20 requests and tokens", got)
		}
	})
}

func TestAStoreThatIsAwayLosesNothing(t *testing.T) {
	var out lines
	inBubble(t, Config{Logger: slog.New(slog.NewJSONHandler(&out, nil))}, func(t *testing.T, l *Ledger, store *flaky) {
		began := time.Now()
		store.set(true)
		const hours = 5 // longer than minutes are kept apart
		for range hours * 60 {
			l.Record(entry("search", "gpt-4o", 2, 1))
			time.Sleep(time.Minute)
		}
		if _, err := l.Usage(t.Context(), began, time.Now(), nil); !errors.Is(err, errAway) {
			t.Errorf("error %v, want the store's", err)
		}
		if n := len(l.pending.minutes); n > maxMinutes {
			t.Errorf("%d minutes are held", n)
		}
		store.set(false)
		time.Sleep(2 * time.Second)
		if got := rows(t, l, began.Truncate(time.Hour), time.Now().Truncate(time.Hour).Add(time.Hour)); len(got) != 1 || got[0].Requests != hours*60 {
			t.Errorf("%+v, want %d requests", got, hours*60)
		}
	})
	for _, said := range []string{"usage totals cannot be stored", "usage totals are stored again"} {
		if n := strings.Count(out.String(), said); n != 1 {
			t.Errorf("%q is logged %d times, want once a transition", said, n)
		}
	}
}

func TestCloseStoresEverythingOrSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(flaky)
		l := New(Config{Store: store, Writer: "a"})
		l.Record(entry("search", "gpt-4o", 2, 1))
		store.set(true)
		go func() {
			time.Sleep(3500 * time.Millisecond)
			store.set(false)
		}()
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := New(Config{Store: store, Writer: "b"})
		if got := rows(t, next, time.Now().Add(-time.Hour), time.Now(), "team"); len(got) != 1 || got[0].InputTokens != 2 {
			t.Errorf("after a restart %+v, want what was recorded before", got)
		}
		next.Record(entry("search", "gpt-4o", 2, 1))
		store.set(true)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if err := next.Close(ctx); !errors.Is(err, errAway) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the store's and the deadline's", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("Close took %v, want until its deadline", took)
		}
	})
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
		out := &stuck{open: make(chan struct{})}
		l := New(Config{Store: new(shared.Memory), Writer: "a", Logger: slog.New(slog.NewJSONHandler(out, nil)), MaxLines: 10})
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
		if got := rows(t, l, began, time.Now().Add(time.Second)); got[0].Requests != 101 {
			t.Errorf("totals have %d requests, want all 101", got[0].Requests)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestRefusedRequestsHaveABoundOfLines(t *testing.T) {
	var out lines
	c := Config{Logger: slog.New(slog.NewJSONHandler(&out, nil))}
	inBubble(t, c, func(t *testing.T, l *Ledger, _ *flaky) {
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
	inBubble(t, c, func(_ *testing.T, l *Ledger, _ *flaky) {
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

func TestManyNamesLeaveBoundedTotals(t *testing.T) {
	inBubble(t, Config{MaxSeries: 20}, func(t *testing.T, l *Ledger, _ *flaky) {
		began := time.Now()
		for i := range 10_000 {
			l.Record(entry("search", fmt.Sprintf("model-%d", i), 1, 0))
			refusal := entry("search", "x", 0, 0)
			refusal.Outcome, refusal.LimitedBy = refused, fmt.Sprintf("team/t%d/tpm", i)
			l.Record(refusal)
		}
		got := rows(t, l, began, time.Now().Add(time.Second), "team", "model")
		if len(got) != 21 {
			t.Fatalf("%d rows, want 20 and other", len(got))
		}
		if rest := got[slices.IndexFunc(got, func(r Row) bool { return r.Model == other })]; rest.Requests != 9980 {
			t.Errorf("other has %d requests, want 9980", rest.Requests)
		}
		l.Record(entry("support", "gpt-4o", 7, 0)) // had no part in it
		got = rows(t, l, began, time.Now().Add(time.Second), "team")
		if len(got) != 2 || got[1].Team != "support" || got[1].InputTokens != 7 {
			t.Errorf("got %+v, want what each team has spent", got)
		}
		series, err := l.Series(t.Context())
		if err != nil || len(series.Refusals) != 21 {
			t.Errorf("%d limits, %v, want 20 and other", len(series.Refusals), err)
		}
	})
}

func TestOddNamesKeepTheirShape(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, l *Ledger, _ *flaky) {
		began := time.Now()
		odd := []string{"", "a/b", "%2F", "ü ß", "\x00w", "\xff"}
		for _, name := range odd {
			l.Record(entry(name, name, 1, 0))
		}
		got := rows(t, l, began, time.Now().Add(time.Second), "team", "model")
		for _, name := range odd {
			if !slices.ContainsFunc(got, func(r Row) bool { return r.Team == name && r.Model == name && r.Requests == 1 }) {
				t.Errorf("%q is missing in %+v", name, got)
			}
		}
	})
}

// Totals of any span are what a plain list of entries would add up to.
func TestUsageOfASpanIsWhatHappenedInIt(t *testing.T) {
	inBubble(t, Config{FlushEvery: time.Minute}, func(t *testing.T, l *Ledger, _ *flaky) {
		began := time.Now().Truncate(time.Hour)
		var times []time.Time
		random := rand.New(rand.NewPCG(1, 2))
		for range 300 {
			time.Sleep(time.Duration(random.IntN(20*60)) * time.Second)
			l.Record(entry("search", "gpt-4o", 1, 0))
			times = append(times, time.Now())
		}
		now := time.Now()
		for range 200 {
			from := began.Add(time.Duration(random.Int64N(int64(now.Sub(began)))))
			to := from.Add(time.Duration(random.Int64N(int64(now.Sub(from)) + 1)))
			// What is asked for in whole minutes, or in the hours that begin in it
			// where minutes are gone.
			first, last := from.Truncate(time.Minute), to.Add(time.Minute-1).Truncate(time.Minute)
			oldest := now.Add(-minutesKept).Truncate(time.Hour).Add(time.Hour)
			if first.Before(oldest) {
				first = first.Add(time.Hour - 1).Truncate(time.Hour)
			}
			if last.Before(oldest) {
				last = last.Add(time.Hour - 1).Truncate(time.Hour)
			}
			var want int64
			for _, at := range times {
				if !at.Before(first) && at.Before(last) && from.Before(to) {
					want++
				}
			}
			var got int64
			for _, r := range rows(t, l, from, to) {
				got += r.Requests
			}
			if got != want {
				t.Fatalf("[%v, %v): %d requests, want %d (now %v)", from, to, got, want, now)
			}
		}
	})
}

func TestDaysOfAnyZoneAddUpToTheWhole(t *testing.T) {
	inBubble(t, Config{FlushEvery: time.Minute}, func(t *testing.T, l *Ledger, _ *flaky) {
		began := time.Now().Truncate(24 * time.Hour)
		for time.Since(began) < 6*24*time.Hour {
			time.Sleep(7 * time.Minute)
			l.Record(entry("search", "gpt-4o", 1, 0))
		}
		requests := func(from, to time.Time) (n int64) {
			for _, r := range rows(t, l, from, to) {
				n += r.Requests
			}
			return n
		}
		for _, offset := range []time.Duration{0, 5*time.Hour + 30*time.Minute, 5*time.Hour + 45*time.Minute, -(3*time.Hour + 30*time.Minute)} {
			first := began.Add(-24*time.Hour - offset)
			var days int64
			for d := range 9 {
				days += requests(first.Add(time.Duration(d)*24*time.Hour), first.Add(time.Duration(d+1)*24*time.Hour))
			}
			if whole := requests(first, first.Add(9*24*time.Hour)); days != whole {
				t.Errorf("%v ahead of UTC: the days have %d requests, the whole %d", offset, days, whole)
			}
		}
	})
}

func TestASpanReadsFewMaps(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 30, 30, 0, time.UTC)
	for _, c := range []struct {
		what     string
		from, to time.Time
		most     int
	}{
		{"nothing", now, now, 0},
		{"backwards", now, now.Add(-time.Hour), 0},
		{"a minute", now.Add(-30 * time.Second), now, 1},
		{"a day", now.Add(-24 * time.Hour), now, 23 + 31 + 30},
		{"a month", now.AddDate(0, -1, 0), now, 31*24 + 31},
		{"all time", time.Time{}, now.AddDate(100, 0, 0), 400*24 + 31},
	} {
		if got := len(span(c.from, c.to, now)); got > c.most {
			t.Errorf("%s: %d maps, want at most %d", c.what, got, c.most)
		}
	}
}

func TestSeriesIsTheLastHourByMinute(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, l *Ledger, _ *flaky) {
		time.Sleep(30 * time.Second)
		for minute := range 70 {
			for range minute % 3 {
				l.Record(entry("search", "gpt-4o", 10, 5))
			}
			refusal := entry("ads", "m", 0, 0)
			refusal.Outcome, refusal.LimitedBy = refused, "team/ads/tpm"
			l.Record(refusal)
			if _, err := l.Series(t.Context()); err != nil { // so that closed minutes are remembered
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		got, err := l.Series(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := time.Now().Truncate(time.Minute).Add(-59 * time.Minute); !got.Start.Equal(want) {
			t.Errorf("it starts at %v, want %v", got.Start, want)
		}
		if len(got.Teams) != 1 || got.Teams[0].Team != "search" || len(got.Refusals) != 1 || got.Refusals[0].Limit != "team/ads/tpm" {
			t.Fatalf("%+v", got)
		}
		for at := range seriesMinutes {
			minute := 70 - 59 + at // the last, the current one, has nothing yet
			wantTokens, wantRefusals := int64(minute%3*15), int64(1)
			if minute >= 70 {
				wantTokens, wantRefusals = 0, 0
			}
			if n := got.Teams[0].Tokens[at]; n != wantTokens {
				t.Errorf("minute %d: %d tokens, want %d", at, n, wantTokens)
			}
			if n := got.Teams[0].Reserved[at]; n != wantTokens/15*110 {
				t.Errorf("minute %d: %d reserved, want %d", at, n, wantTokens/15*110)
			}
			if n := got.Refusals[0].Count[at]; n != wantRefusals {
				t.Errorf("minute %d: %d refusals, want %d", at, n, wantRefusals)
			}
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	l := New(Config{Store: new(shared.Memory), Writer: "a"})
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
