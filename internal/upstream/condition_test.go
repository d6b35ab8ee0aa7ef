package upstream

import (
	"testing"
	"time"
)

// play makes conditions go through a day of one model with two keys.
func TestAConditionRestsIsProbedAndServesAgain(t *testing.T) {
	c, now := make(conditions), morning
	one, two := scope{key: "one"}, scope{key: "two", model: "m"}
	look := func(key, model string) cause { return c.look(key, model, now).cause }

	if !c.rest(one, refused, 0, now, now) || look("one", "m") != refused || look("one", "n") != refused || look("two", "m") != "" {
		t.Fatalf("after a refusal of one key: %v", c)
	}
	if c.rest(one, refused, 0, now.Add(-time.Second), now) {
		t.Errorf("an attempt that was under way made the rest longer")
	}
	want := 10 * time.Second
	for range 8 {
		if got := c.look("one", "m", now).wait; got != want {
			t.Errorf("it rests for %s, want %s", got, want)
		}
		now = now.Add(want)
		if look("one", "m") != "" {
			t.Fatalf("nobody may probe it after %s", want)
		}
		c.begin("one", "m", now)
		if look("one", "n") != refused {
			t.Errorf("a second attempt may probe it")
		}
		now = now.Add(time.Second)
		if !c.rest(one, refused, 0, now, now) {
			t.Errorf("a probe that failed changed nothing")
		}
		want = min(2*want, 5*time.Minute)
	}

	now = now.Add(want)
	c.begin("one", "m", now)
	c.end("one", "m", now) // its client left
	if look("one", "m") != "" {
		t.Errorf("a probe that showed nothing keeps the next away")
	}
	c.begin("one", "m", now)
	if got := now.Add(probeTime); c.look("one", "m", got).cause != "" {
		t.Errorf("a probe that never ends keeps others away for ever")
	}
	if back := c.served("one", "m", now.Add(-time.Hour)); len(back) != 0 || look("one", "n") != refused {
		t.Errorf("what was sent before the rest ended it: %v", back)
	}
	if back := c.served("one", "m", now); len(back) != 1 || back[0] != one || len(c) != 0 {
		t.Errorf("a probe that was served leaves %v, and reports %v", c, back)
	}

	if !c.rest(two, denied, 0, now, now) || look("two", "m") != denied || look("two", "n") != "" || look("one", "m") != "" {
		t.Errorf("what a key may not use is its and the model's: %v", c)
	}
}

func TestASpentQuotaIsProbedOnceAMinute(t *testing.T) {
	c, now, probes := make(conditions), morning, 0
	at := scope{key: "k"}
	c.rest(at, spent, 0, now, now)
	for range 10 * 60 { // a call each second
		now = now.Add(time.Second)
		if c.look("k", "m", now).cause == "" {
			probes++
			c.begin("k", "m", now)
			c.rest(at, spent, 0, now, now)
		}
	}
	if probes != 10 {
		t.Errorf("%d probes in ten minutes", probes)
	}
}

func TestAWaitThatTheProviderAsksForIsKeptAndThenOver(t *testing.T) {
	c, now := make(conditions), morning
	at := scope{"k", "image"}
	c.rest(at, limited, 20*time.Second, now, now)
	c.rest(at, limited, 5*time.Second, now, now) // a later answer to an earlier call
	if got := c.look("k", "image", now); got != (rest{limited, 20 * time.Second}) {
		t.Errorf("it rests %v, want 20 s", got)
	}
	if got := c.look("k", "chat", now); got.cause != "" {
		t.Errorf("another model rests too: %v", got)
	}
	if c.served("k", "image", now); c.look("k", "image", now).cause == "" {
		t.Errorf("a call that was still served ended the wait")
	}
	now = now.Add(20 * time.Second)
	for range 3 { // no probe: all may go
		if got := c.look("k", "image", now); got.cause != "" {
			t.Errorf("after its time it rests: %v", got)
		}
		c.begin("k", "image", now)
	}
	c.rest(at, limited, 1000*time.Hour, now, now)
	if got := c.look("k", "image", now).wait; got != longestHold {
		t.Errorf("a wait of weeks holds it for %s, want %s", got, longestHold)
	}
	if c.rest(scope{key: "k"}, refused, 0, now, now); c.look("k", "image", now).wait != longestHold {
		t.Errorf("the longer of two rests does not count: %v", c.look("k", "image", now))
	}
}

func TestAModelRestsAfterFailuresInARowAndForLongerEachTime(t *testing.T) {
	c, now := make(conditions), morning
	at := scope{model: "m"}
	for range 2 {
		for i := range tripAfter - 1 {
			if c.fail(at, now, now) || c.look("k", "m", now).cause != "" {
				t.Fatalf("it rests after %d failures", i+1)
			}
		}
		c.served("k", "m", now) // a success between them
	}
	for range tripAfter - 1 {
		c.fail(at, now, now)
	}
	want := coolFirst
	for range 8 {
		if !c.fail(at, now, now) {
			t.Errorf("a failure changed nothing")
		}
		if got := c.look("k", "m", now); got != (rest{failing, want}) {
			t.Errorf("it rests %v, want %s", got, want)
		}
		if c.fail(at, now.Add(-1), now) {
			t.Errorf("a call that was under way made it rest longer")
		}
		now = now.Add(want)
		want = min(2*want, coolMost)
	}
	for range 1000 { // the doubling must not overflow
		c.fail(at, now, now)
	}
	if got := c.look("k", "m", now).wait; got != coolMost {
		t.Errorf("after a thousand failures it rests for %s", got)
	}
	if c.rest(at, limited, 3*time.Second, now, now); c.look("k", "m", now) != (rest{limited, 3 * time.Second}) {
		t.Errorf("asked to wait, it rests %v", c.look("k", "m", now))
	}
	if c.fail(at, now, now); c.look("k", "m", now).cause != limited {
		t.Errorf("a failure ended the wait that the provider asked for")
	}
	now = now.Add(time.Hour)
	if c.served("k", "m", now); len(c) != 0 {
		t.Errorf("a success leaves %v", c)
	}
}
