package sim

import (
	"math"
	"testing"
)

// known is a limit of 60,000 tokens a minute as the known figures have it.
var known = Minute{Amount: 60_000, Large: 50_000, Pressure: 1200, Reserve: 1000, Use: 500, RunsMS: 60 * second}

// Small requests for 1.2 times the rate take what comes back before it is
// enough for a large one.
func TestS33PollingStarvesALargeRequestAndAClaimDoesNot(t *testing.T) {
	at, granted, err := known.LargeWaits(Polls)
	if err != nil || granted {
		t.Errorf("without a claim it was granted after %d ms (%v), want not at all in 55 minutes", at, err)
	}
	at, granted, err = known.LargeWaits(Claims)
	if err != nil || !granted {
		t.Fatalf("with a claim it was not granted in 55 minutes (%v)", err)
	}
	// The refill is a token a millisecond, and half of it is set aside.
	if most := 2*known.Large + second; at > most {
		t.Errorf("with a claim it was granted after %d ms, want %d at most", at, most)
	}
}

func TestALargeRequestAloneWaitsForItsRefillAndNoLonger(t *testing.T) {
	alone := known
	alone.Pressure = 0
	for _, claim := range []Claim{Polls, Claims} {
		if at, granted, err := alone.LargeWaits(claim); err != nil || !granted || at != 50*second {
			t.Errorf("claim %d: got %d ms, %v (%v), want 50 s", claim, at, granted, err)
		}
	}
}

// Requests that reserve twice what they use, and run for a minute, give the
// rest back when the window that they took it from is gone.
func TestS35ABucketIsUsedWhereAFixedWindowIsHalfEmpty(t *testing.T) {
	if got := known.Utilisation(FixedWindow(known.Amount, 60*second)); math.Abs(got-0.50) > 0.01 {
		t.Errorf("a fixed window: got %.3f, want about 0.50", got)
	}
	for _, s := range []struct {
		bank int64
		want float64
	}{
		{4, 0.986}, // the product's
		{0, 0.986}, // the cap costs nothing here
		{1, 0.50},  // one that never lends what may come back
	} {
		m, err := known.Bucket(s.bank)
		if err != nil {
			t.Fatal(err)
		}
		if got := known.Utilisation(m); math.Abs(got-s.want) > 0.01 {
			t.Errorf("a bucket with bank %d: got %.3f, want about %.3f", s.bank, got, s.want)
		}
	}
}

func TestAMinuteThatCannotBePlayedIsRefused(t *testing.T) {
	for what, change := range map[string]func(*Minute){
		"no tokens at all":                     func(m *Minute) { m.Amount = 0 },
		"a large request that never fits":      func(m *Minute) { m.Large = m.Amount + 1 },
		"a reservation that never fits":        func(m *Minute) { m.Reserve = m.Amount + 1 },
		"more used than reserved":              func(m *Minute) { m.Use = m.Reserve + 1 },
		"less than nothing used":               func(m *Minute) { m.Use = -1 },
		"requests that end before they begin":  func(m *Minute) { m.RunsMS = 0 },
		"small requests for less than nothing": func(m *Minute) { m.Pressure = -1 },
		"more requests than can be played":     func(m *Minute) { m.Amount, m.Reserve, m.Use = 1<<40, 1, 1 },
	} {
		m := known
		change(&m)
		if err := m.check(); err == nil {
			t.Errorf("%s: got no error for %+v", what, m)
		}
	}
	if err := known.check(); err != nil {
		t.Errorf("got %v for what can be played", err)
	}
}
