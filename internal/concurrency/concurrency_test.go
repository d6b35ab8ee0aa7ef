package concurrency

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestATeamTakesThreeTimesWhatItLeavesFree(t *testing.T) {
	p := NewPool(1600)
	take := func(team string) int {
		n := 0
		for p.Take(team, 1) {
			n++
		}
		return n
	}
	for _, s := range []struct {
		team string
		want int
	}{
		{"greedy", 1200}, // alone: three quarters
		{"second", 300},  // three quarters of what is left
		{"third", 75},
		{"greedy", 0},
	} {
		if got := take(s.team); got != s.want {
			t.Errorf("%s got %d bytes more, want %d", s.team, got, s.want)
		}
	}
	if !p.Take("modest", 10) {
		t.Error("a team with little got nothing beside three that take all they can")
	}
	p.Give("second", 300)
	if got := take("third"); got == 0 {
		t.Error("what was given back is not to be had")
	}
}

func TestAPoolIsWholeAgainWhenAllIsGivenBack(t *testing.T) {
	p := NewPool(1000)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range int64(500) {
				if team := fmt.Sprint(i % 3); p.Take(team, n) {
					p.Give(team, n)
				}
			}
		})
	}
	all.Wait()
	if p.Held() != 0 || len(p.held) != 0 {
		t.Errorf("%d bytes are held by %v, want none", p.Held(), p.held)
	}
	if p.Resize(100); p.Take("a", 76) || !p.Take("a", 75) {
		t.Error("the new size does not count")
	}
}

// Eight holders of one team want the gate all the time, each for a second. A
// call of another team waits for the one at work, and for who worked less.
func TestAGateGoesByWhatATeamHasWorked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1)
		ctx, stop := context.WithCancel(context.Background())
		worked := map[string]time.Duration{}
		var mu sync.Mutex
		work := func(team string, d time.Duration) {
			for {
				turn, err := g.Enter(ctx, team)
				if err != nil {
					return
				}
				time.Sleep(d)
				turn.Leave()
				mu.Lock()
				worked[team] += d
				mu.Unlock()
			}
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { work("heavy", time.Second) })
		}
		for range 2 { // of a team that always wants more, too
			all.Go(func() { work("light", 10*time.Millisecond) })
		}
		time.Sleep(100 * time.Second)
		start := time.Now()
		turn, err := g.Enter(ctx, "modest")
		if err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("a team that came last: waited %v, %v; want a turn of each of the others at most", time.Since(start), err)
		}
		turn.Leave()
		mu.Lock()
		if share := worked["light"].Seconds() / worked["heavy"].Seconds(); share < 0.95 || share > 1.05 {
			t.Errorf("eight long holders of one team and two short ones of another worked %v, want alike", worked)
		}
		mu.Unlock()
		stop()
		all.Wait()
	})
}

func TestAYieldLetsAnotherTeamIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1)
		ctx := context.Background()
		long, err := g.Enter(ctx, "long")
		if err != nil {
			t.Fatal(err)
		}
		in := make(chan time.Time, 1)
		go func() {
			turn, err := g.Enter(ctx, "short")
			if err != nil {
				t.Error(err)
				return
			}
			in <- time.Now()
			turn.Leave()
		}()
		time.Sleep(time.Second)
		began := time.Now()
		if err := long.Yield(ctx); err != nil {
			t.Fatal(err)
		}
		if at := <-in; !at.Equal(began) {
			t.Errorf("let in %v after the yield", at.Sub(began))
		}
		if err := long.Yield(ctx); err != nil { // nobody waits
			t.Fatal(err)
		}
		behind := make(chan bool)
		go func() {
			turn, err := g.Enter(ctx, "long")
			if err != nil {
				t.Error(err)
				return
			}
			close(behind)
			turn.Leave()
		}()
		synctest.Wait()
		if err := long.Yield(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-behind:
			t.Error("a turn was yielded to the next of the same team")
		default:
		}
		long.Leave()
		<-behind
	})
}

func TestWhoLeavesTheLineKeepsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1)
		holder, _ := g.Enter(context.Background(), "a")
		ctx, leave := context.WithCancel(context.Background())
		gone := make(chan error)
		go func() { _, err := g.Enter(ctx, "b"); gone <- err }()
		synctest.Wait()
		leave()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		holder.Leave()
		next, err := g.Enter(context.Background(), "c")
		if err != nil {
			t.Fatal(err)
		}
		next.Leave()
		if g.free != 1 {
			t.Errorf("%d places are free, want 1", g.free)
		}
	})
}
