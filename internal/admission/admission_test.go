package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

const most = 100

// enter takes a place for a team, or fails the test.
func enter(t *testing.T, r *Room, team string) *Place {
	t.Helper()
	p, err := r.Enter(t.Context(), "pool", most, Guest{Team: team})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// inLine takes a place in a line.
func inLine(t *testing.T, r *Room, key string, gain time.Duration) *Place {
	t.Helper()
	p := enter(t, r, "t")
	p.Join(key, gain)
	return p
}

func isFirst(p *Place) bool {
	first, _, _ := p.Turn()
	return first
}

func TestOnlyTheFirstOfALineAsks(t *testing.T) {
	r := New()
	a, b, c := inLine(t, r, "tpm", 0), inLine(t, r, "tpm", 0), inLine(t, r, "tpm", 0)
	if !isFirst(a) || isFirst(b) || isFirst(c) {
		t.Fatal("want the first alone to ask")
	}
	b.Leave() // leaving from the middle is free
	if isFirst(c) {
		t.Fatal("the third asks while the first still waits")
	}
	a.Leave()
	if !isFirst(c) {
		t.Fatal("the third does not ask though all before it left")
	}
	select {
	case <-c.News():
	default:
		t.Error("the next in line was not woken")
	}
	c.Leave()
	c.Leave() // twice is harmless
	if r.Waiting("pool") != 0 || len(r.lines) != 0 || len(r.pools) != 0 {
		t.Errorf("got %d waiting in %d lines after all left", r.Waiting("pool"), len(r.lines))
	}
}

func TestAPlaceIsInOneLineAtATime(t *testing.T) {
	r := New()
	p := inLine(t, r, "tpm", 0)
	p.Join("rpm", 0)
	if r.Busy("tpm") || !r.Busy("rpm") {
		t.Errorf("got tpm %v and rpm %v, want the new line alone", r.Busy("tpm"), r.Busy("rpm"))
	}
	p.LeaveLine()
	if r.Busy("rpm") || r.Waiting("pool") != 1 {
		t.Error("leaving the line must keep the place")
	}
}

// Ten a second: each needs what takes 100 ms to gain.
func TestALineKnowsWhenEachWillFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New()
		const each = 100 * time.Millisecond
		a, b, c := inLine(t, r, "rps", each), inLine(t, r, "rps", each), inLine(t, r, "rps", each)
		if _, ask, wait := a.Turn(); ask != 0 || wait != 0 {
			t.Fatalf("nothing is known: got ask in %v, a wait of %v, want to ask now", ask, wait)
		}
		a.Refused(60 * time.Millisecond)
		for i, want := range []time.Duration{60 * time.Millisecond, 160 * time.Millisecond, 260 * time.Millisecond} {
			if _, _, got := []*Place{a, b, c}[i].Turn(); got != want {
				t.Errorf("place %d: got a wait of %v, want %v", i, got, want)
			}
		}
		time.Sleep(60 * time.Millisecond)
		if _, ask, _ := a.Turn(); ask != 0 {
			t.Fatalf("got to ask in %v, want now", ask)
		}
		a.Granted(0, true)
		a.Leave()
		if first, ask, wait := b.Turn(); !first || ask != each || wait != each {
			t.Errorf("the next: got first %v, ask in %v, a wait of %v, want %v without asking", first, ask, wait, each)
		}
		r.Gained("rps", 30*time.Millisecond)
		if _, ask, _ := b.Turn(); ask != 70*time.Millisecond {
			t.Errorf("after a refund: got to ask in %v, want 70 ms", ask)
		}
	})
}

// What other gateways give back is seen by asking before the time.
func TestTheFirstPollsSeldom(t *testing.T) {
	for _, s := range []struct {
		what  string
		wait  time.Duration // as each verdict says
		lines int           // other lines
		want  int           // asks in ten seconds
	}{
		{"a wait that is known", time.Minute, 0, 11},
		{"a slot", 0, 0, 100},
		{"one of a hundred lines", time.Minute, 99, 3},
	} {
		t.Run(s.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New()
				for i := range s.lines {
					enter(t, r, "t").Join(i, 0)
				}
				p := inLine(t, r, "tpm", time.Second)
				asks := 0
				for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
					if _, ask, _ := p.Turn(); ask > 0 {
						if err := p.Sleep(ask); err != nil {
							t.Fatal(err)
						}
						continue
					}
					asks++
					p.Refused(s.wait)
				}
				if asks > s.want || asks < s.want/2 {
					t.Errorf("got %d asks in 10 s, want about %d", asks, s.want)
				}
			})
		})
	}
}

func TestWhatEndsAWait(t *testing.T) {
	refused := errors.New("blocked")
	left := errors.New("left")
	closed := errors.New("closed")
	for _, s := range []struct {
		what string
		end  func(r *Room, leave context.CancelCauseFunc, check *error)
		want error
	}{
		{"its client has left", func(_ *Room, leave context.CancelCauseFunc, _ *error) { leave(left) }, left},
		{"it is refused by now", func(r *Room, _ context.CancelCauseFunc, check *error) { *check = refused; r.Wake() }, refused},
		{"the gateway stops", func(r *Room, _ context.CancelCauseFunc, _ *error) { r.Close(closed, 0) }, closed},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := New()
			ctx, leave := context.WithCancelCause(t.Context())
			defer leave(nil)
			var check error
			p, err := r.Enter(ctx, "pool", most, Guest{Check: func() error { return check }})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Leave()
			time.AfterFunc(time.Second, func() { s.end(r, leave, &check) })
			began := time.Now()
			if err := p.Sleep(time.Hour); !errors.Is(err, s.want) || time.Since(began) != time.Second {
				t.Errorf("%s: got %v after %v, want %v after 1s", s.what, err, time.Since(began), s.want)
			}
		})
	}
}

func TestWakeLetsEveryPlaceLookAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New()
		a, b := inLine(t, r, "tpm", time.Second), enter(t, r, "u")
		a.Refused(time.Hour)
		time.AfterFunc(time.Second, r.Wake)
		for _, p := range []*Place{a, b} {
			if err := p.Sleep(time.Hour); err != nil || !p.Changed() || p.Changed() {
				t.Errorf("got %v, want to be woken, once", err)
			}
		}
		if _, ask, wait := a.Turn(); ask != 0 || wait != 0 {
			t.Errorf("got to ask in %v, want now: what was known is old", ask)
		}
	})
}

func TestAClosingRoomLetsThoseWaitWhoseTurnComesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New()
		closed := errors.New("closed")
		p := enter(t, r, "t")
		r.Close(closed, 2*time.Second)
		if err := p.Sleep(time.Second); err != nil {
			t.Errorf("got %v within the time, want to wait on", err)
		}
		late := enter(t, r, "t") // still open
		began := time.Now()
		if err := late.Sleep(time.Hour); !errors.Is(err, closed) || time.Since(began) != time.Second {
			t.Errorf("got %v after %v, want the room's end after 1s", err, time.Since(began))
		}
		if _, err := r.Enter(t.Context(), "pool", most, Guest{}); !errors.Is(err, closed) {
			t.Errorf("a closed room: got %v", err)
		}
	})
}

func TestTeamsShareAFullPool(t *testing.T) {
	r := New()
	full := func(team string) bool {
		_, err := r.Enter(t.Context(), "pool", 4, Guest{Team: team})
		return errors.Is(err, ErrCrowded)
	}
	var crowd []*Place
	for range 4 {
		p, err := r.Enter(t.Context(), "pool", 4, Guest{Team: "crowd"})
		if err != nil {
			t.Fatal(err)
		}
		crowd = append(crowd, p)
	}
	if !full("crowd") {
		t.Error("a fifth of one team got a place of four")
	}
	for range 2 {
		if full("few") {
			t.Error("a team got no place beside one that had them all")
		}
	}
	for i, want := range []error{nil, nil, ErrCrowded, ErrCrowded} { // the newest give up their places
		if got := context.Cause(crowd[i].Context()); !errors.Is(got, want) {
			t.Errorf("place %d of the crowd: got %v, want %v", i, got, want)
		}
	}
	if !full("few") || !full("crowd") {
		t.Error("a team got more than its half")
	}
	if full("third") {
		t.Error("a third team got no place")
	}
	if r.Waiting("pool") != 4 {
		t.Errorf("got %d places taken, want 4", r.Waiting("pool"))
	}
	for _, p := range crowd {
		p.Leave()
	}
	if got := r.Waiting("pool"); got > 3 {
		t.Errorf("got %d places taken after the crowd left", got)
	}
}

func TestAPlaceSeesAWakeThatCameBeforeIt(t *testing.T) {
	r := New()
	refused := errors.New("refused by now")
	if _, err := r.Enter(t.Context(), "pool", most, Guest{Team: "t", Check: func() error { return refused }}); !errors.Is(err, refused) {
		t.Errorf("got %v, want the guest's refusal", err)
	}
	if n := r.Waiting("pool"); n != 0 {
		t.Errorf("got %d places taken, want 0: it was refused", n)
	}
	since := r.Wakes()
	for _, s := range []struct {
		wake bool
		want bool
	}{{false, false}, {true, true}} {
		if s.wake {
			r.Wake()
		}
		p, err := r.Enter(t.Context(), "pool", most, Guest{Team: "t", Since: since})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Changed(); got != s.want {
			t.Errorf("with a wake before it, %v: got changed %v", s.wake, got)
		}
		p.Leave()
	}
}
