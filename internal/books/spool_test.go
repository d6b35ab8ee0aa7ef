package books

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"llmgw/internal/database"
)

// awayDatabase is a database without its schema, until the function is called.
func awayDatabase(t *testing.T, c database.Config) (*database.Database, func()) {
	t.Helper()
	db, err := database.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, func() {
		t.Helper()
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// copySpool copies the files of a spool as a kill would leave them.
func copySpool(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	files, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, f.Name()), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func requestsIn(t *testing.T, b *Books) int64 {
	t.Helper()
	rows := usage(t, b, always)
	if len(rows) == 0 {
		return 0
	}
	found, _, err := b.Requests(t.Context(), Find{Limit: 1000})
	if err != nil || int64(len(found)) != rows[0].Requests {
		t.Errorf("got %d records and %v where totals have %d", len(found), err, rows[0].Requests)
	}
	return rows[0].Requests
}

// eventually waits for what another goroutine does in its own time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestRecordsWaitForADatabaseThatIsAwayAndArePostedOnce(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, c database.Config) {
		db, migrate := awayDatabase(t, c)
		b := start(t, Config{Database: db, Spool: t.TempDir()})
		for i := range 100 {
			b.Record(Record{ID: fmt.Sprint(i), Input: 1})
		}
		if err := b.Flush(t.Context()); err == nil {
			t.Fatal("the database is there")
		}
		migrate()
		if got := requestsIn(t, b); got != 100 {
			t.Errorf("got %d requests, want 100", got)
		}
	})
}

// A killed gateway leaves its spool: whatever of it the database has, the next
// process posts the rest.
func TestAKilledGatewaysSpoolIsPostedOnceByTheNext(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, c database.Config) {
		db, migrate := awayDatabase(t, c)
		dir := t.TempDir()
		first := start(t, Config{Database: db, Spool: dir, Instance: "first"})
		for i := range 300 {
			first.Record(Record{ID: fmt.Sprint(i)})
		}
		first.writePending()
		before := copySpool(t, dir) // nothing is posted yet
		torn, err := os.OpenFile(filepath.Join(before, "first.1"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = torn.WriteString(`{"seq":301,"record":{"id":"to`) // what a power cut leaves
		_ = torn.Close()
		migrate()
		for i, spool := range []string{before, copySpool(t, before)} { // the second has what the first has posted
			next := start(t, Config{Database: db, Spool: spool, Instance: fmt.Sprint("next", i)})
			<-next.ready
			eventually(t, "adopted", func() bool {
				left, _ := filepath.Glob(filepath.Join(spool, "first.*"))
				return len(left) == 0
			})
			if got := requestsIn(t, next); got != 300 {
				t.Errorf("got %d requests, want 300", got)
			}
		}
		if got := requestsIn(t, first); got != 300 { // it was not dead after all
			t.Errorf("after the first posts too: got %d requests, want 300", got)
		}
	})
}

func TestALivingGatewaysSpoolIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	db, migrate := awayDatabase(t, database.Config{})
	first := start(t, Config{Database: db, Spool: dir, Instance: "first"})
	first.Record(Record{ID: "a"})
	first.writePending()
	second := start(t, Config{Database: db, Spool: dir, Instance: "second"})
	if err := second.adoptOne(t.Context(), "first"); err != errHeld { //nolint:errorlint // it is returned as it is
		t.Errorf("got %v, want errHeld", err)
	}
	migrate()
}

func TestAFullSpoolKeepsTotalsAndDropsSingleRecords(t *testing.T) {
	dropped := 0
	db, migrate := awayDatabase(t, database.Config{})
	b := start(t, Config{Database: db, Spool: t.TempDir(), MaxSpool: 50_000, Dropped: func(n int) { dropped += n }})
	const all = 600
	for i := range all {
		b.Record(Record{ID: fmt.Sprint(i), Team: "search", Input: 2, Charged: 3, USD: 4})
		if i%100 == 0 {
			b.writePending()
		}
	}
	b.writePending()
	if n := b.spool.bytes(); n > 50_000 {
		t.Errorf("the spool has %d bytes, want 50,000 at most", n)
	}
	migrate()
	rows := usage(t, b, always)
	if want := (Sums{Requests: all, Input: 2 * all, Charged: 3 * all, USD: 4 * all}); len(rows) != 1 || rows[0].Sums != want {
		t.Errorf("got %+v, want %+v", rows, want)
	}
	var kept int
	if err := db.QueryRow("SELECT count(*) FROM requests").Scan(&kept); err != nil || dropped == 0 || kept+dropped != all {
		t.Errorf("got %d single records, %d dropped and %v, want %d in all", kept, dropped, err, all)
	}
}

func TestADiskThatTakesNothingKeepsTotals(t *testing.T) {
	db, _ := awayDatabase(t, database.Config{})
	b := start(t, Config{Database: db, Spool: t.TempDir()})
	_ = b.spool.file.Close() // every write fails from now on
	for range 100 {
		b.Record(Record{ID: "a", Input: 1})
	}
	b.writePending()
	b.writing.Lock() // the next try has them in hand for a moment
	defer b.writing.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	var sum sums
	for _, s := range b.folded {
		sum.add(s, 1)
	}
	if sum.Requests != 100 || sum.Input != 100 {
		t.Errorf("got %+v, want 100 requests", sum)
	}
	b.folded = totals{} // or the test's end waits for them
}

// A spool is a queue: whatever is written, read and given up in whatever order,
// it returns each item once, in order.
func TestASpoolReturnsWhatWasPutInInOrder(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		s, err := openSpool(dir, "a", 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		filler := strings.Repeat("x", 3000) // several segments
		var put, got int64
		for put < 30_000 || got < put {
			if put < 30_000 && rand.IntN(3) > 0 {
				n := 1 + rand.IntN(2000)
				items := make([]item, n)
				for i := range items {
					items[i] = item{Seq: put + int64(i) + 1, Record: &Record{ID: filler}}
				}
				if s.append(items, true) == nil {
					put += int64(n)
				}
				continue
			}
			items, err := s.next(1 + rand.IntN(3000))
			if err != nil {
				t.Fatal(err)
			}
			if len(items) == 0 {
				if got != put {
					t.Fatalf("nothing is returned after %d of %d", got, put)
				}
				continue
			}
			for _, i := range items {
				if got++; i.Seq != got {
					t.Fatalf("got item %d, want %d", i.Seq, got)
				}
			}
			if len(items) > 10 && rand.IntN(2) == 0 { // posting failed: the same again
				got -= int64(len(items))
				continue
			}
			s.done(items[len(items)-1].end)
		}
		if s.waits() {
			t.Error("something waits in an empty spool")
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "a.*")); dir != "" && len(left) > 0 {
			t.Errorf("an empty spool leaves %v", left)
		}
	}
}

func TestADirectoryThatCannotBeWrittenIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := New(Config{Spool: filepath.Join(file, "below"), Instance: "a"})
	if err == nil || !strings.Contains(err.Error(), "records.spool.path") {
		t.Errorf("got %v, want an error that names records.spool.path", err)
	}
}

func TestRetentionKeepsWhatIsYoungAndEveryDay(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, c database.Config) {
		day := 24 * time.Hour
		db := openDatabase(t, c)
		b := start(t, Config{Database: db, Spool: t.TempDir(), Keep: Keep{Requests: 30 * day, Minutes: 14 * day, Hours: 400 * day}})
		for _, age := range []time.Duration{0, 20 * day, 70 * day, 500 * day} {
			b.Record(Record{ID: age.String(), Time: noon.Add(-age), Input: 1})
		}
		flush(t, b)
		if err := b.Retain(t.Context()); err != nil {
			t.Fatal(err)
		}
		for table, want := range map[string]int{"requests": 2, "totals_minutes": 1, "totals_quarters": 3, "totals_days": 4} {
			var got int
			if err := db.QueryRow("SELECT count(*) FROM " + table).Scan(&got); err != nil || got != want {
				t.Errorf("%s: got %d rows and %v, want %d", table, got, err, want)
			}
		}
		// What is left still adds up, from the coarser tables.
		if rows := usage(t, b, always); len(rows) != 1 || rows[0].Requests != 4 {
			t.Errorf("got %+v, want 4 requests", rows)
		}
		q := Query{From: noon.Add(-600 * day), To: noon.Add(time.Hour), Per: "day"}
		if rows := usage(t, b, q); len(rows) != 4 {
			t.Errorf("by days: got %d rows, want 4", len(rows))
		}
	})
}
