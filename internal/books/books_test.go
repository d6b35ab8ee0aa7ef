package books

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"llmgw/internal/database"
	"llmgw/internal/pgtest"
	"llmgw/internal/testenv"
)

// noon is the time of these tests: a day on which Athens leaves summer time.
var noon = time.Date(2026, 10, 25, 12, 0, 0, 0, time.UTC)

// server is the PostgreSQL of all tests of this package, started by the first.
var server struct {
	sync.Once
	*pgtest.Server
	err       error
	databases atomic.Int64
}

func TestMain(m *testing.M) {
	code := m.Run()
	if server.Server != nil {
		server.Close()
	}
	os.Exit(code)
}

// onEachDatabase runs a test on an empty database of each kind.
func onEachDatabase(t *testing.T, test func(t *testing.T, c database.Config)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, database.Config{}) })
	t.Run("sqlite", func(t *testing.T) {
		test(t, database.Config{Kind: database.SQLite, Path: filepath.Join(t.TempDir(), "books.db")})
	})
	t.Run("postgres", func(t *testing.T) { test(t, postgres(t)) })
}

// postgres is an empty database of the one server.
func postgres(t testing.TB) database.Config {
	t.Helper()
	if testenv.Unit() {
		t.Skip("needs PostgreSQL: make test runs this")
	}
	server.Do(func() { server.Server, server.err = pgtest.New() })
	if server.err != nil {
		t.Fatal(server.err)
	}
	return database.Config{Kind: database.Postgres, URL: server.Database(t, fmt.Sprintf("books%d", server.databases.Add(1)))}
}

func openDatabase(t testing.TB, c database.Config) *database.Database {
	t.Helper()
	db, err := database.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

func start(t testing.TB, c Config) *Books {
	t.Helper()
	if c.Now == nil {
		c.Now = func() time.Time { return noon }
	}
	if c.Instance == "" {
		c.Instance = "a"
	}
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = b.Close(ctx) // a test that wants its error closes itself
	})
	return b
}

func flush(t testing.TB, b *Books) {
	t.Helper()
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func usage(t testing.TB, b *Books, q Query) []Row {
	t.Helper()
	rows, err := b.Usage(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// always is a query of all time.
var always = Query{From: time.Unix(0, 0), To: noon.Add(100 * 24 * time.Hour)}

func whole() Record {
	return Record{
		ID: "req_1", Time: noon, Team: "search", KeyID: "k", User: "u", Session: "s", Tags: map[string]string{"env": "prod"}, Priority: "batch",
		Model: "gpt-4o", Provider: "openai", ProviderModel: "gpt-4o-1", Endpoint: "/v1/chat/completions",
		Status: 200, Outcome: "completed", Code: "c", LimitedBy: "l", Attempts: 2, Stream: true, Estimated: true, Degraded: true,
		EstimatedInput: 1, ReservedOutput: 2, Input: 3, CachedInput: 4, CacheWrite: 5, Output: 6, Reasoning: 7, Reserved: 8, Charged: 9, USD: 1_500_001,
		QueueMS: 1.5, FirstTokenMS: 2.5, TotalMS: 3.5, OverheadMS: 0.25,
		Tries: []Try{{"p", "m", 500, "c", 1}}, Limits: []Limit{{"team/search/tpm", "tokens", 3, 2, 1}},
	}
}

func TestARecordIsReadBackAsItWasMade(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, c database.Config) {
		b := start(t, Config{Database: openDatabase(t, c), Spool: t.TempDir()})
		b.Record(whole())
		got, err := b.Request(t.Context(), "req_1", nil)
		if err != nil || !reflect.DeepEqual(got, whole()) {
			t.Errorf("got  %+v and %v\nwant %+v", got, err, whole())
		}
		if _, err := b.Request(t.Context(), "req_1", []string{"ads"}); !errors.Is(err, ErrNoRecord) {
			t.Errorf("of another team: got %v, want ErrNoRecord", err)
		}
	})
}

// What a client sends stands in texts: nothing of it can break a statement.
func TestHostileTextsAreKeptAsTexts(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, c database.Config) {
		b := start(t, Config{Database: openDatabase(t, c), Spool: t.TempDir()})
		for i, text := range []string{"'; DROP TABLE requests; --", "a\x00b", "\xff\xfe", strings.Repeat("é", 1000), `"\u0000`, "$1"} {
			b.Record(Record{ID: fmt.Sprint(i), User: text, Session: text, Model: text, Tags: map[string]string{text: text}})
		}
		found, _, err := b.Requests(t.Context(), Find{Limit: 100})
		if err != nil || len(found) != 6 {
			t.Fatalf("got %d records and %v, want 6", len(found), err)
		}
		for _, r := range found {
			if len(r.User) > longestText || strings.ContainsRune(r.User, 0) {
				t.Errorf("got the user %q", r.User)
			}
		}
		one, _, err := b.Requests(t.Context(), Find{User: "'; DROP TABLE requests; --", Limit: 100})
		if err != nil || len(one) != 1 {
			t.Errorf("by a hostile user: got %d records and %v, want 1", len(one), err)
		}
	})
}

// randomRecords spreads records over two days around noon.
func randomRecords(n int) []Record {
	pick := func(of ...string) string { return of[rand.IntN(len(of))] }
	records := make([]Record, n)
	for i := range records {
		r := Record{
			ID: fmt.Sprintf("req_%d", i), Time: noon.Add(-time.Duration(rand.Int64N(int64(48 * time.Hour)))).Truncate(time.Millisecond),
			Team: pick("search", "ads"), KeyID: pick("k1", "k2"), User: pick("", "u1", "u2"), Model: pick("m1", "m2", ""), Provider: pick("p", ""),
			Outcome: pick("completed", Refused, "client_gone"), Input: rand.Int64N(100), Output: rand.Int64N(100), Charged: rand.Int64N(1000), USD: Dollars(rand.Int64N(1e6)),
		}
		if v := pick("", "prod", "test"); v != "" {
			r.Tags = map[string]string{"env": v}
		}
		if r.Outcome == Refused {
			r.LimitedBy = pick("team/search/tpm", "team/ads/rpm")
		}
		records[i] = r
	}
	return records
}

// groupOf is what a record counts for.
func groupOf(r *Record, name string) string {
	return map[string]string{
		"team": r.Team, "key": r.KeyID, "model": r.Model, "provider": r.Provider, "outcome": r.Outcome, "user": r.User,
		"tag:env": r.Tags["env"], "limit": r.LimitedBy,
	}[name]
}

// TestTotalsAreTheSumOfRecords compares every grouping, over times that begin and
// end anywhere, in zones of all kinds, with a sum of the records themselves.
func TestTotalsAreTheSumOfRecords(t *testing.T) {
	records := randomRecords(200) // SQLite in Go is slow under the race detector
	athens, _ := time.LoadLocation("Europe/Athens")
	kathmandu, _ := time.LoadLocation("Asia/Kathmandu") // a quarter past
	onEachDatabase(t, func(t *testing.T, c database.Config) {
		b := start(t, Config{Database: openDatabase(t, c), Spool: t.TempDir(), Keep: Keep{Requests: 30 * 24 * time.Hour, Minutes: 14 * 24 * time.Hour, Hours: 400 * 24 * time.Hour}})
		for _, r := range records {
			b.Record(r)
		}
		for _, groups := range [][]string{nil, {"team"}, {"team", "model"}, {"key", "provider", "outcome"}, {"user"}, {"team", "tag:env"}, {"limit"}} {
			for _, per := range []string{"", "hour", "day", "month"} {
				for _, zone := range []*time.Location{nil, athens, kathmandu} {
					from := noon.Add(-time.Duration(rand.IntN(3000)) * time.Minute)
					q := Query{From: from, To: from.Add(time.Duration(1+rand.IntN(2000)) * time.Minute), Per: per, Zone: zone, GroupBy: groups}
					got := map[string]Sums{}
					for _, row := range usage(t, b, q) {
						got[rowKey(row.Time, row.Groups)] = row.Sums
					}
					if want := sumOf(records, q); !reflect.DeepEqual(got, want) {
						t.Fatalf("%+v:\ngot  %v\nwant %v", q, got, want)
					}
				}
			}
		}
	})
}

func sumOf(records []Record, q Query) map[string]Sums {
	want := map[string]Sums{}
	for i := range records {
		r := &records[i]
		if r.Time.Before(q.From) || !r.Time.Before(q.To) {
			continue
		}
		start, _ := localPeriod(r.Time, q.Per, q.Zone)
		groups := make([]string, len(q.GroupBy))
		for i, name := range q.GroupBy {
			groups[i] = groupOf(r, name)
		}
		s := want[rowKey(start, groups)]
		s.Requests++
		if r.Outcome == Refused {
			s.Refused++
		}
		s.Input, s.Output, s.Charged, s.USD = s.Input+r.Input, s.Output+r.Output, s.Charged+r.Charged, s.USD+r.USD
		want[rowKey(start, groups)] = s
	}
	return want
}

func TestUsageCanBeNarrowed(t *testing.T) {
	records := randomRecords(300)
	b := start(t, Config{Database: openDatabase(t, database.Config{})})
	for _, r := range records {
		b.Record(r)
	}
	for _, where := range []map[string][]string{{"team": {"ads"}}, {"user": {"u1", "u2"}, "model": {"m1"}}, {"tag:env": {"prod"}}, {"team": {}}} {
		q := always
		q.Where = where
		var some []Record
		for _, r := range records {
			counts := true
			for name, values := range where {
				counts = counts && strings.Contains(","+strings.Join(values, ",")+",", ","+groupOf(&r, name)+",") && len(values) > 0
			}
			if counts {
				some = append(some, r)
			}
		}
		var got Sums
		for _, row := range usage(t, b, q) {
			got = row.Sums
		}
		if want := sumOf(some, q)[rowKey(time.Time{}, nil)]; got != want {
			t.Errorf("%v: got %+v, want %+v", where, got, want)
		}
	}
	for _, q := range []Query{{GroupBy: []string{"colour"}}, {GroupBy: []string{"user", "tag:env"}}, {GroupBy: []string{"tag:"}}, {Per: "fortnight"}, {Per: "minute"}} {
		q.From, q.To = always.From, always.To
		if _, err := b.Usage(t.Context(), q); !errors.As(err, new(BadQuery)) {
			t.Errorf("%+v: got %v, want a BadQuery", q, err)
		}
	}
}

func TestPagesHaveEachRecordOnceAndTheLastHasNoCursor(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, c database.Config) {
		b := start(t, Config{Database: openDatabase(t, c), Spool: t.TempDir()})
		for i := range 25 { // many at one time
			b.Record(Record{ID: fmt.Sprintf("req_%02d", i), Time: noon.Add(time.Duration(i/10) * time.Second), Team: []string{"a", "b"}[i%2]})
		}
		var ids []string
		cursor, pages := "", 1
		for ; ; pages++ {
			found, next, err := b.Requests(t.Context(), Find{Limit: 7, Cursor: cursor, Teams: []string{"a", "b"}})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range found {
				ids = append(ids, r.ID)
			}
			if cursor = next; cursor == "" {
				break
			}
		}
		if pages != 4 || len(ids) != 25 || ids[0] != "req_24" || ids[24] != "req_00" {
			t.Errorf("got %d pages of %v", pages, ids)
		}
		if found, next, err := b.Requests(t.Context(), Find{Limit: 13, Teams: []string{"a"}}); len(found) != 13 || next != "" || err != nil {
			t.Errorf("a page that is just full: got %d, %q and %v, want no cursor", len(found), next, err)
		}
		if _, _, err := b.Requests(t.Context(), Find{Limit: 1, Cursor: "?"}); !errors.As(err, new(BadQuery)) {
			t.Errorf("a wrong cursor: got %v, want a BadQuery", err)
		}
	})
}

func TestWhatIsLateAddsToItsRequest(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, c database.Config) {
		b := start(t, Config{Database: openDatabase(t, c), Spool: t.TempDir()})
		late := Record{ID: "req_1", Time: noon, Outcome: "completed", Input: 5, Charged: 6, USD: 7, Late: true}
		b.Record(Record{ID: "req_1", Time: noon, Outcome: "completed", Input: 1, Charged: 2, USD: 3})
		b.Record(late) // in the same transaction, perhaps
		flush(t, b)
		b.Record(late)
		late.ID = "req_2" // whose gateway died
		b.Record(late)
		got, err := b.Request(t.Context(), "req_1", nil)
		if want := (Record{ID: "req_1", Time: noon, Outcome: "completed", Input: 11, Charged: 14, USD: 17}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v and %v, want %+v", got, err, want)
		}
		rows := usage(t, b, always)
		if want := (Sums{Requests: 2, Input: 16, Charged: 20, USD: 24}); len(rows) != 1 || rows[0].Sums != want {
			t.Errorf("got %+v, want %+v", rows, want)
		}
	})
}

func TestOnlyTheConfiguredRequestsKeepARecord(t *testing.T) {
	for requests, want := range map[Requests]int{All: 2, "": 2, Refusal: 1, None: 0} {
		b := start(t, Config{Database: openDatabase(t, database.Config{}), Requests: requests})
		b.Record(Record{ID: "a", Outcome: "completed"})
		b.Record(Record{ID: "b", Outcome: Refused})
		found, _, err := b.Requests(t.Context(), Find{Limit: 10})
		if rows := usage(t, b, always); err != nil || len(found) != want || rows[0].Requests != 2 || rows[0].Refused != 1 {
			t.Errorf("%q: got %d records, %v and %+v, want %d and all totals", requests, len(found), err, rows, want)
		}
	}
}

func TestEventsAreNotesAndRefusalsByMinute(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, c database.Config) {
		b := start(t, Config{Database: openDatabase(t, c), Spool: t.TempDir()})
		for i := range 5 {
			b.Record(Record{ID: fmt.Sprint(i), Time: noon.Add(time.Duration(i) * 20 * time.Second), Team: "search", Outcome: Refused, LimitedBy: "team/search/tpm"})
		}
		b.Note(Event{Time: noon.Add(30 * time.Second), Kind: "block", Team: "ads", Subject: "team/ads", Actor: "ann", Detail: "why"})
		var got []string
		cursor := ""
		for {
			found, next, err := b.Events(t.Context(), FindEvents{Limit: 2, Cursor: cursor})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range found {
				got = append(got, fmt.Sprint(e.Time.Format("05"), e.Kind, e.Team, e.Subject, e.Actor, e.Count, e.Detail))
			}
			if cursor = next; cursor == "" {
				break
			}
		}
		if want := []string{"00refusalsearchteam/search/tpm2", "30blockadsteam/adsann1why", "00refusalsearchteam/search/tpm3"}; !reflect.DeepEqual(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		for _, f := range []FindEvents{{Kind: "block"}, {Teams: []string{"ads"}}, {Subject: "team/ads"}, {From: noon.Add(time.Second), To: noon.Add(time.Minute)}} {
			f.Limit = 10
			if found, _, err := b.Events(t.Context(), f); err != nil || len(found) != 1 || found[0].Kind != "block" {
				t.Errorf("%+v: got %+v and %v, want the block alone", f, found, err)
			}
		}
	})
}

// The store had no settlement of a request that a crash left open: whatever its
// gateway wrote down, it is charged what was reclaimed.
func TestAReclaimedRequestIsChargedWhatWasReclaimedWhicheverRecordComesFirst(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, c database.Config) {
		b := start(t, Config{Database: openDatabase(t, c), Spool: t.TempDir()})
		ended := func(id string) Record {
			return Record{ID: id, Time: noon, Team: "search", Outcome: "completed", Input: 10, Output: 20, Charged: 30, USD: 40}
		}
		reclaimed := func(id string) Record {
			return Record{ID: id, Time: noon.Add(time.Hour), Team: "search", Outcome: Reclaimed, Input: 1, Charged: 1, USD: 2, Estimated: true, Late: true}
		}
		for id, records := range map[string][]Record{
			"req_1": {ended("req_1"), reclaimed("req_1")},
			"req_2": {reclaimed("req_2"), ended("req_2")},
			"req_3": {reclaimed("req_3")},
		} {
			for _, apart := range []bool{false, true} {
				for _, r := range records {
					if r.ID = fmt.Sprint(id, apart); apart {
						flush(t, b)
					}
					b.Record(r)
				}
			}
		}
		found, _, err := b.Requests(t.Context(), Find{Limit: 100})
		if err != nil || len(found) != 6 {
			t.Fatalf("got %d records and %v, want 6", len(found), err)
		}
		for _, r := range found {
			want := "completed"
			if strings.HasPrefix(r.ID, "req_3") {
				want = Reclaimed
			}
			if r.Charged != 1 || r.USD != 2 || r.Input != 1 || r.Output != 0 || r.Outcome != want {
				t.Errorf("got %+v, want 1 token charged, %s", r, want)
			}
		}
		rows := usage(t, b, always)
		if want := (Sums{Requests: 6, Input: 6, Charged: 6, USD: 12}); len(rows) != 1 || rows[0].Sums != want {
			t.Errorf("got %+v, want %+v", rows, want)
		}
	})
}
