package upstream

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestAnIntervalIsFreeAgainWhenWhatFilledItIsOld(t *testing.T) {
	p := newPaced(&Provider{Name: "p", Limits: Limits{TokensPerMinute: 60_000}}, "")
	now := time.UnixMilli(1_700_000_000_000)
	span := time.Second + p.tokens.jitter + step
	var sent spans
	for _, s := range []struct {
		what  string
		after time.Duration // since the step before
		n     float64
		wait  time.Duration
	}{
		{"an empty second takes its share", 0, 1000, 0},
		{"and then nothing", 0, 1, span},
		{"until that is old", 400 * time.Millisecond, 1, span - 400*time.Millisecond},
		{"to the step", span - 400*time.Millisecond, 600, 0},
		{"what is left can be had", 0, 400, 0},
		{"but not more", 0, 1, span},
		{"a cost of two and a half seconds needs three", 0, 2500, 3*time.Second + p.tokens.jitter + step},
		{"which are free in time", 3*time.Second + p.tokens.jitter + step, 2500, 0},
		{"after it a second is not enough", 500 * time.Millisecond, 10, span - 500*time.Millisecond},
	} {
		now = now.Add(s.after)
		if got := sent.wait(p, s.n, now); got != s.wait {
			t.Errorf("%s: wait %s, want %s", s.what, got, s.wait)
		}
		if s.wait == 0 {
			sent.add(now, s.n)
		}
	}
}

func TestTheMinuteIsKeptAsWell(t *testing.T) {
	p := newPaced(&Provider{Name: "p", Limits: Limits{TokensPerMinute: 600, Window: time.Second}}, "")
	var s spans
	now := time.UnixMilli(1_700_000_000_000)
	for range 60 { // ten a second
		if got := s.wait(p, 10, now); got != 0 {
			t.Fatalf("within the rate: wait %s", got)
		}
		s.add(now, 10)
		now = now.Add(time.Second + p.tokens.jitter + step)
	}
	// 61.8 s later the first two are old.
	if got := s.wait(p, 600, now); got < 59*time.Second || got > 61*time.Second {
		t.Errorf("a whole minute's cost waits %s", got)
	}
	s.lower(s.last-1, 1)
	now = now.Add(time.Hour)
	if got := s.wait(p, 600, now); got != 0 {
		t.Errorf("an hour later it waits %s", got)
	}
	if s.add(now, 600); s.wait(p, 1, now) == 0 {
		t.Errorf("what was added after an hour is forgotten")
	}
}

func TestTheMinuteBindsWhereWindowsDoNotDivideIt(t *testing.T) {
	p := newPaced(&Provider{Name: "p", Limits: Limits{TokensPerMinute: 600, Window: 40 * time.Second}}, "")
	var s spans
	now := time.UnixMilli(1_700_000_000_000)
	s.add(now, 400)
	now = now.Add(41 * time.Second)
	if got := s.wait(p, 200, now); got != 0 {
		t.Errorf("what the minute has left waits %s", got)
	}
	if got, want := s.wait(p, 400, now), 19*time.Second+p.tokens.jitter+step; got != want {
		t.Errorf("a second window in one minute waits %s, want %s", got, want)
	}
}

func TestSpansSumWhatWasSent(t *testing.T) {
	p := newPaced(&Provider{Name: "p", Limits: Limits{TokensPerMinute: 60_000}}, "")
	random := rand.New(rand.NewPCG(8, 9))
	type entry struct {
		at   time.Time
		step int64
		n    float64
	}
	var s spans
	var log []entry
	now := time.UnixMilli(1_700_000_000_000)
	for range 5000 {
		now = now.Add(time.Duration(random.IntN(300)) * time.Millisecond)
		n := float64(1 + random.IntN(700))
		if wait := s.wait(p, n, now); wait > 0 {
			continue
		}
		for k := range log {
			if i := len(log) - 1 - k; now.Sub(log[i].at) > time.Minute {
				log = log[i+1:]
				break
			}
		}
		second, minute := n, n
		for _, e := range log {
			if now.Sub(e.at) <= time.Second {
				second += e.n
			}
			if now.Sub(e.at) <= time.Minute {
				minute += e.n
			}
		}
		if second > 1000 || minute > 60_000 {
			t.Fatalf("%v tokens in a second, %v in a minute", second, minute)
		}
		log = append(log, entry{now, s.add(now, n), n})
		if e := &log[random.IntN(len(log))]; random.IntN(4) == 0 { // it used less
			s.lower(e.step, e.n/2)
			e.n /= 2
		}
	}
	if len(log) < 50 {
		t.Errorf("only %d were sent in the last minute", len(log))
	}
}

func BenchmarkSpans(b *testing.B) {
	p := newPaced(&Provider{Name: "p", Limits: Limits{TokensPerMinute: 60_000_000}}, "")
	var s spans
	now := time.UnixMilli(1_700_000_000_000)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		if s.wait(p, 500, now) == 0 {
			s.add(now, 500)
		}
	}
}
