package failover

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// tick lets the reports of now be sent.
func tick() {
	time.Sleep(3 * time.Second) // of the bubble: the default Progress
	synctest.Wait()
}

// lastReport is the latest of id, in short.
func (w *world) lastReport(id string) string {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	for i := len(w.ledger.reports) - 1; i >= 0; i-- {
		if p := w.ledger.reports[i]; p.ID == id {
			return fmt.Sprintf("used %v, crash %v", p.Used, p.Crash)
		}
	}
	return "nothing"
}

// What a crash is charged: the prompt once it was sent, then what came and as
// much again as came since the report before.
func TestS17_ACrashChargesThePromptThenWhatCameAndAMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.reserve("r", usual()...)
		for _, s := range []struct {
			what string
			tell func()
			want string
		}{
			{"nothing is known before the request is sent", func() {}, "nothing"},
			{"the prompt may yet come back: it is not used", func() { w.Sent("r", used(30)) }, "used [], crash [30 1 1]"},
			{"a try at another provider sends it again", func() { w.Sent("r", used(30)) }, "used [], crash [30 1 1]"},
			{"10 came since", func() { w.Report("r", used(40)) }, "used [40 1 1], crash [50 1 1]"},
			{"25 came since", func() { w.Report("r", used(50)); w.Report("r", used(65)) }, "used [65 1 1], crash [90 1 1]"},
			{"a late sign that it was sent says nothing new", func() { w.Sent("r", used(30)) }, "used [65 1 1], crash [90 1 1]"},
			{"nothing came since, and nothing is told", func() {}, "used [65 1 1], crash [90 1 1]"},
			{"a count that was corrected downwards", func() { w.Report("r", used(60)) }, "used [60 1 1], crash [60 1 1]"},
		} {
			s.tell()
			tick()
			if got := w.lastReport("r"); got != s.want {
				t.Errorf("%s: got %s, want %s", s.what, got, s.want)
			}
		}
		w.Settle("r", used(70))
		w.Sent("r", used(30))
		w.Sent("nobody", used(30))
		w.end()
	})
}

// The first report of all has the prompt in it, so it says nothing about how fast
// an answer comes.
func TestAFirstReportHasNoMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.reserve("r", usual()...)
		w.Report("r", used(40))
		tick()
		if got, want := w.lastReport("r"), "used [40 1 1], crash [40 1 1]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		w.Settle("r", used(40))
		w.end()
	})
}

func TestAReportThatWasLostWidensTheMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.reserve("r", usual()...)
		w.Report("r", used(40))
		tick()
		w.faults.all(lost)
		w.Report("r", used(50))
		tick()
		w.faults.set(nil)
		w.Report("r", used(55))
		time.Sleep(20 * time.Second) // of the bubble
		synctest.Wait()
		if got, want := w.lastReport("r"), "used [55 1 1], crash [70 1 1]"; got != want {
			t.Errorf("got %s, want %s: 15 came since the store was told", got, want)
		}
		w.Settle("r", used(55))
		w.end()
	})
}
