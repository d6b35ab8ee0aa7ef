package proxy

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/tenant"
	"llmgw/internal/tokens"
)

// ends are the ends of responses, as they were told: nil where nobody saw it.
type ends struct {
	mu   sync.Mutex
	told map[*record][]*dialect.Report
}

func (e *ends) end(rec *record, r *dialect.Report) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.told == nil {
		e.told = map[*record][]*dialect.Report{}
	}
	e.told[rec] = append(e.told[rec], r)
}

func (e *ends) of(rec *record) []*dialect.Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.told[rec]
}

// about is a call about a response.
func about(id, method string) *dialect.Call {
	c := &dialect.Call{}
	c.Endpoint = dialect.Endpoint{Method: method, Operation: dialect.Stored}
	c.Params = map[string]string{"response_id": id}
	return c
}

// ask makes a call about a response.
func (b *background) ask(id, method string, status int, r dialect.Report) {
	a := b.asks(about(id, method))
	defer a.end()
	a.told(status, r)
}

func TestAResponseThatGoesOnEndsOnce(t *testing.T) {
	seen := dialect.Report{ID: "resp_1", Complete: true, Usage: tokens.Usage{Output: 3}}
	for _, s := range []struct {
		what   string
		method string
		status int
		report dialect.Report
		ends   bool
		known  bool
	}{
		{"it goes on", http.MethodGet, 200, dialect.Report{ID: "resp_1", Finish: "in_progress"}, false, false},
		{"its end", http.MethodGet, 200, seen, true, true},
		{"its failure", http.MethodGet, 200, dialect.Report{ID: "resp_1", Failure: &dialect.Failure{}}, true, true},
		{"it was cancelled", http.MethodPost, 200, dialect.Report{ID: "resp_1", Complete: true, Finish: "cancelled"}, true, true},
		{"it was deleted", http.MethodDelete, 200, dialect.Report{}, true, false},
		{"it was not deleted", http.MethodDelete, 404, dialect.Report{}, false, false},
		{"its input", http.MethodGet, 200, dialect.Report{Complete: true}, false, false},
		{"another's end under its id", http.MethodGet, 200, dialect.Report{ID: "resp_2", Complete: true}, false, false},
		{"the provider failed", http.MethodGet, 500, dialect.Report{Failure: &dialect.Failure{}}, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			told, rec := &ends{}, &record{}
			b := newBackground(told.end)
			if !b.leave("resp_1", rec) || b.leave("resp_1", &record{}) {
				t.Fatalf("%s: it was not taken once", s.what)
			}
			for range 2 {
				b.ask("resp_1", s.method, s.status, s.report)
			}
			if got := told.of(rec); (len(got) == 1) != s.ends || len(got) > 1 || len(got) == 1 && (got[0] != nil) != s.known {
				t.Errorf("%s: got the ends %v", s.what, got)
			}
			b.close()
			if len(told.of(rec)) != 1 || len(b.open) != 0 {
				t.Errorf("%s: %d ends after all, want 1", s.what, len(told.of(rec)))
			}
		})
	}
}

func TestAResponseThatNobodyAsksForEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, rec := &ends{}, &record{}
		b := newBackground(told.end)
		b.leave("resp_1", rec)
		for range 5 {
			time.Sleep(askedWithin - time.Second)
			b.ask("resp_1", http.MethodGet, 200, dialect.Report{ID: "resp_1"})
		}
		synctest.Wait()
		if len(told.of(rec)) != 0 {
			t.Error("it ended though it was asked for")
		}
		time.Sleep(askedWithin)
		synctest.Wait()
		if got := told.of(rec); len(got) != 1 || got[0] != nil {
			t.Errorf("got the ends %v, want one that nobody saw", got)
		}
	})
}

func TestAResponseThatIsWatchedStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, rec := &ends{}, &record{}
		b := newBackground(told.end)
		b.leave("resp_1", rec)
		watches := b.asks(about("resp_1", http.MethodGet)) // as a stream
		time.Sleep(10 * askedWithin)
		synctest.Wait()
		if len(told.of(rec)) != 0 {
			t.Error("it ended though it was watched")
		}
		watches.told(http.StatusOK, dialect.Report{ID: "resp_1"}) // the watcher leaves
		watches.end()
		b.ask("resp_1", http.MethodGet, http.StatusNotFound, dialect.Report{}) // which shows nothing
		time.Sleep(2*askedWithin + time.Second)
		synctest.Wait()
		if got := told.of(rec); len(got) != 1 || got[0] != nil {
			t.Errorf("got the ends %v, want one that nobody saw", got)
		}
	})
}

func TestACallAboutNothingStoredIsNoAsking(t *testing.T) {
	b := newBackground(func(*record, *dialect.Report) { t.Error("something ended") })
	a := b.asks(&dialect.Call{})
	if a != nil {
		t.Errorf("got %+v, want nil", a)
	}
	a.told(http.StatusOK, dialect.Report{Complete: true})
	a.end()
}

func TestTheResponsesThatGoOnAreBounded(t *testing.T) {
	told := &ends{}
	b := newBackground(told.end)
	for i := range maxUnfinished {
		if !b.leave(strconv.Itoa(i), &record{}) {
			t.Fatalf("no room for the response %d", i)
		}
	}
	if b.leave("one more", &record{}) {
		t.Error("there is room without end")
	}
	b.close()
	if len(told.told) != maxUnfinished || !b.leave("one more", &record{}) {
		t.Errorf("%d have ended, want all", len(told.told))
	}
	b.close()
}

func TestTeamsShareTheTableOfResponsesThatGoOn(t *testing.T) {
	told := &ends{}
	b := newBackground(told.end)
	of := func(team string) *record { return &record{caller: charge.Caller{Team: &tenant.Team{Name: team}}} }
	crowd := make([]*record, maxUnfinished)
	for i := range crowd {
		crowd[i] = of("crowd")
		if !b.leave(strconv.Itoa(i), crowd[i]) {
			t.Fatalf("no room for the response %d", i)
		}
	}
	if b.leave("crowd's", of("crowd")) {
		t.Error("a team that has all places gets another one")
	}
	if !b.leave("few's", of("few")) || !b.leave("few's second", of("few")) {
		t.Error("a team gets no place beside one that has them all")
	}
	if b.finish(strconv.Itoa(maxUnfinished-1), nil) || b.finish(strconv.Itoa(maxUnfinished-2), nil) || !b.finish("0", nil) {
		t.Error("it was not the newest of the larger team that gave up its place")
	}
	if len(told.told) != 3 { // two gave up their places, one was ended above
		t.Errorf("%d have ended, want 3", len(told.told))
	}
	b.close()
	if len(b.teams) != 0 {
		t.Errorf("teams are still counted: %v", b.teams)
	}
}

func TestOnlyWhatIsDetachedAndHasAnIDGoesOn(t *testing.T) {
	for _, s := range []struct {
		what     string
		detached bool
		status   int
		report   dialect.Report
		want     bool
	}{
		{"it is queued", true, 200, dialect.Report{ID: "resp_1"}, true},
		{"it was not asked for in the background", false, 200, dialect.Report{ID: "resp_1"}, false},
		{"it has ended", true, 200, dialect.Report{ID: "resp_1", Complete: true}, false},
		{"it has failed", true, 200, dialect.Report{ID: "resp_1", Failure: &dialect.Failure{}}, false},
		{"it has no id", true, 200, dialect.Report{}, false},
		{"it was refused", true, 429, dialect.Report{ID: "resp_1"}, false},
	} {
		if got := goesOn(&plan{Plan: charge.Plan{Call: &dialect.Call{Detached: s.detached}}}, s.status, s.report); got != s.want {
			t.Errorf("%s: got %v, want %v", s.what, got, s.want)
		}
	}
}
