package proxy

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/tenant"
)

// story is what happens to attempts of calls that have no name.
type story struct {
	t      *testing.T
	all    *attempts
	header [2]string // one more of each attempt
}

// try makes an attempt, with how many before it.
func (s story) try(count int, body string) *told {
	return s.tryAs(keyed("key-1"), count, body, "/v1/chat/completions")
}

// tryWaiting makes an attempt whose client says how long it waits.
func (s story) tryWaiting(count int, name, seconds string) *told {
	s.header = [2]string{name, seconds}
	return s.try(count, "a")
}

func (s story) tryAs(who tenant.Caller, count int, body, path string) *told {
	s.t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, nil).WithContext(s.t.Context())
	r.Header.Set("X-Stainless-Retry-Count", strconv.Itoa(count))
	if s.header[0] != "" {
		r.Header.Set(s.header[0], s.header[1])
	}
	began := time.Now()
	r, a := s.all.begin(r, who, []byte(body))
	return &told{attempt: a, request: r, waited: time.Since(began)}
}

// told is one attempt and what became of it.
type told struct {
	*attempt
	request *http.Request
	waited  time.Duration
}

func (a *told) ended() bool { return a.request.Context().Err() != nil }

// settles ends the attempt when it is told to end.
func (a *told) settles() *told {
	go func() {
		<-a.request.Context().Done()
		a.end()
	}()
	return a
}

// stories runs one in a bubble.
func stories(t *testing.T, tell func(t *testing.T, s story)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { tell(t, story{t: t, all: newAttempts()}) })
}

func TestARetryEndsTheAttemptThatItRepeats(t *testing.T) {
	stories(t, func(t *testing.T, s story) {
		first := s.try(0, "a").settles()
		second := s.try(1, "a").settles()
		third := s.try(2, "a")
		if !first.ended() || !second.ended() || third.ended() {
			t.Errorf("ended: %v, %v, %v, want the first two", first.ended(), second.ended(), third.ended())
		}
		third.answer(http.StatusOK)
		third.end()
		synctest.Wait()
		if n := len(s.all.retries.known); n != 0 {
			t.Errorf("%d are remembered after all", n)
		}
	})
}

func TestARetryWaitsForTheSettlement(t *testing.T) {
	stories(t, func(t *testing.T, s story) {
		first := s.try(0, "a")
		go func() {
			<-first.request.Context().Done()
			time.Sleep(200 * time.Millisecond) // it settles
			first.end()
		}()
		second := s.try(1, "a")
		defer second.end()
		if second.waited != 200*time.Millisecond {
			t.Errorf("the retry went on after %v, want after the first had settled", second.waited)
		}
	})
}

func TestEqualFirstAttemptsAreIndependent(t *testing.T) {
	stories(t, func(t *testing.T, s story) {
		a, b := s.try(0, "a"), s.try(0, "a")
		retried := s.try(1, "a") // of one of them, but of which?
		if a.ended() || b.ended() || retried.ended() {
			t.Errorf("ended: %v, %v, %v, want none", a.ended(), b.ended(), retried.ended())
		}
		for _, x := range []*told{a, b, retried} {
			x.end()
		}
	})
}

func TestWhatFailedIsWhatARetryRepeats(t *testing.T) {
	stories(t, func(t *testing.T, s story) {
		other := s.try(0, "a")
		s.try(0, "a").end() // without an answer
		if retried := s.try(1, "a"); other.ended() {
			t.Error("an equal call was ended by the retry of one that had failed")
		} else {
			retried.end()
		}
		again := s.try(1, "a") // the failure has had its retry
		if !other.ended() {
			t.Error("the one attempt that is left was not ended")
		}
		again.end()
		other.end()
	})
}

// What a retry repeats may have been refused by another gateway, or have found a
// connection that was closed: who says how long it waits has not given up before.
func TestAnAttemptIsNotGivenUpBeforeItsTime(t *testing.T) {
	for _, try := range []struct {
		name, seconds string
		after         time.Duration
		ends          bool
	}{
		{"X-Stainless-Timeout", "600", time.Minute, false},
		{"X-Stainless-Timeout", "600", 10 * time.Minute, true},
		{"X-Stainless-Read-Timeout", "1.5", time.Second, false},
		{"X-Stainless-Read-Timeout", "1.5", 1500 * time.Millisecond, true},
		{"X-Stainless-Timeout", "0", time.Second, true}, // of less than a second
		{"X-Stainless-Read-Timeout", "NOT_GIVEN", time.Second, true},
		{"X-Stainless-Timeout", "-1", time.Second, true},
		{"X-Stainless-Timeout", "NaN", time.Second, true},
		{"X-Stainless-Timeout", "1e300", time.Second, true},
	} {
		stories(t, func(t *testing.T, s story) {
			first := s.tryWaiting(0, try.name, try.seconds)
			time.Sleep(try.after)
			go func() { <-first.request.Context().Done(); first.end() }()
			second := s.tryWaiting(1, try.name, try.seconds)
			if first.ended() != try.ends {
				t.Errorf("%s: %s, after %v: the first has ended: %v, want %v", try.name, try.seconds, try.after, first.ended(), try.ends)
			}
			second.end()
			if !try.ends {
				first.cancel(nil)
			}
			synctest.Wait()
		})
	}
}

func TestAFailureIsForgottenInTime(t *testing.T) {
	stories(t, func(t *testing.T, s story) {
		s.try(0, "a").end()
		time.Sleep(retryWindow)
		other := s.try(0, "a").settles()
		defer s.try(1, "a").end()
		if !other.ended() {
			t.Error("a failure of long ago explained a retry")
		}
	})
}

func TestAnAnswerIsNotTriedAgain(t *testing.T) {
	stories(t, func(t *testing.T, s story) {
		running := s.try(0, "a")
		running.answer(http.StatusOK)
		s.try(1, "a").end()
		if running.ended() {
			t.Error("an attempt that is being answered was ended")
		}
		running.end()
		failing := s.try(0, "b").settles()
		failing.answer(http.StatusTooManyRequests)
		defer s.try(1, "b").end()
		if !failing.ended() {
			t.Error("an attempt that got an error was not ended")
		}
	})
}

func TestOnlyWhatIsTheSameIsTriedAgain(t *testing.T) {
	mine := tenant.Caller{Key: &tenant.Key{ID: "key-1"}, User: "u", IP: netip.MustParseAddr("10.0.0.1")}
	const path = "/v1/chat/completions"
	other := func(change func(*tenant.Caller)) tenant.Caller {
		c := mine
		change(&c)
		return c
	}
	for _, try := range []struct {
		what  string
		who   tenant.Caller
		count int
		body  string
		path  string
	}{
		{"another key", other(func(c *tenant.Caller) { c.Key = &tenant.Key{ID: "key-2"} }), 1, "a", path},
		{"another user", other(func(c *tenant.Caller) { c.User = "v" }), 1, "a", path},
		{"another address", other(func(c *tenant.Caller) { c.IP = netip.MustParseAddr("10.0.0.2") }), 1, "a", path},
		{"another body", mine, 1, "b", path},
		{"another path", mine, 1, "a", "/v1/messages"},
		{"another query", mine, 1, "a", path + "?x=1"},
		{"a retry of a retry", mine, 2, "a", path},
		{"a first attempt", mine, 0, "a", path},
	} {
		stories(t, func(t *testing.T, s story) {
			running := s.tryAs(mine, 0, "a", path)
			s.tryAs(try.who, try.count, try.body, try.path).end()
			if running.ended() {
				t.Errorf("it was ended by %s", try.what)
			}
			running.end()
		})
	}
}

func TestWhatIsKnownOfRetriesIsBounded(t *testing.T) {
	stories(t, func(t *testing.T, s story) {
		for i := range maxRetries + 10 {
			s.try(0, strconv.Itoa(i)).end()
		}
		if n := len(s.all.retries.known); n != maxRetries {
			t.Errorf("%d are known, want %d", n, maxRetries)
		}
		unknown := s.try(0, "a")
		s.try(1, "a").end()
		if unknown.ended() {
			t.Error("an attempt was ended though nothing was sure")
		}
		unknown.end()
		time.Sleep(retryWindow)
		first := s.try(0, "a").settles()
		defer s.try(1, "a").end()
		synctest.Wait()
		if n := len(s.all.retries.known); n != 1 || !first.ended() {
			t.Errorf("after a while %d are known, want the retry alone; the first ended: %v, want it to", n, first.ended())
		}
	})
}

func BenchmarkAnAttemptOfALargeCall(b *testing.B) {
	all, body, who := newAttempts(), make([]byte, 400<<10), keyed("key-1")
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	r.Header.Set("X-Stainless-Retry-Count", "0")
	b.ReportAllocs()
	for b.Loop() {
		_, a := all.begin(r, who, body)
		a.answer(http.StatusOK)
		a.end()
	}
}
