package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// wrongTry sends one wrong token from address, by header or by the sign-in form,
// and returns the status with the time that the answer took.
func wrongTry(h http.Handler, path, address string) (status int, took time.Duration) {
	r := httptest.NewRequest("GET", path, nil)
	if path == "/dashboard/login" {
		r = httptest.NewRequest("POST", path, strings.NewReader("token=wrong"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	} else {
		r.Header.Set("Authorization", "Bearer wrong")
	}
	r.RemoteAddr = address
	w := httptest.NewRecorder()
	began := time.Now()
	h.ServeHTTP(w, r)
	if w.Code == http.StatusTooManyRequests && (w.Header().Get("Retry-After") == "" || w.Header().Get("Retry-After") == "0") {
		return 0, 0
	}
	return w.Code, time.Since(began)
}

func rightTry(h http.Handler, address string) (status int, took time.Duration) {
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r.RemoteAddr = address
	w := httptest.NewRecorder()
	began := time.Now()
	h.ServeHTTP(w, r)
	return w.Code, time.Since(began)
}

func TestWrongTokensOfAnAddressAreAnsweredEverMoreSlowly(t *testing.T) {
	for _, path := range []string{"/admin/v1/teams", "/dashboard", "/metrics", "/dashboard/login"} {
		synctest.Test(t, func(t *testing.T) {
			g := newGateway()
			var counted []string
			g.Accounts, g.WrongToken = owner(token), func(client string) { counted = append(counted, client) }
			h := New(g.Config)
			for i, want := range []time.Duration{0, 125, 250, 500, 1000, 2000, 4000, 4000} {
				if status, took := wrongTry(h, path, "192.0.2.1:1000"); status != 401 || took != want*time.Millisecond {
					t.Errorf("%s, try %d: status %d after %v, want 401 after %d ms", path, i+1, status, took, want)
				}
			}
			for what, address := range map[string]string{"that address": "192.0.2.1:2000", "another": "192.0.2.2:1"} {
				if status, took := rightTry(h, address); status != 200 || took != 0 {
					t.Errorf("%s, the right token from %s: status %d after %v", path, what, status, took)
				}
			}
			if status, took := wrongTry(h, path, "192.0.2.2:1"); status != 401 || took != 0 {
				t.Errorf("%s, another address: status %d after %v, want 401 at once", path, status, took)
			}
			if len(counted) != 9 || counted[0] != "192.0.2.1" || counted[8] != "192.0.2.2" {
				t.Errorf("%s: counted %q", path, counted)
			}
			time.Sleep(2 * forgetAfter) // of the bubble's clock
			wrongTry(h, path, "192.0.2.3:1")
			time.Sleep(forgetAfter)
			if status, took := wrongTry(h, path, "192.0.2.1:1"); status != 401 || took != 0 {
				t.Errorf("%s, half an hour later: status %d after %v, want 401 at once", path, status, took)
			}
		})
	}
}

func TestWrongTokensSentAtOnceAreNotAllHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway()
		g.Accounts = owner(token)
		h := New(g.Config)
		var mu sync.Mutex
		answers := map[string]int{}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				status, took := wrongTry(h, "/admin/v1/teams", "192.0.2.1:1000")
				mu.Lock()
				defer mu.Unlock()
				answers[fmt.Sprint(status, " ", took)]++
			})
		}
		synctest.Wait()
		if status, took := rightTry(h, "192.0.2.1:1000"); status != 200 || took != 0 {
			t.Errorf("the right token among them: status %d after %v", status, took)
		}
		all.Wait()
		if fmt.Sprint(answers) != "map[401 0s:1 401 1.875s:1 401 125ms:1 401 3.875s:1 401 375ms:1 401 875ms:1 429 0s:94]" {
			t.Errorf("got %v", answers)
		}
	})
}

func TestNoTokenAndAnOldPassAreNoWrongToken(t *testing.T) {
	g := newGateway()
	g.Accounts, g.WrongToken = owner(token), func(string) { t.Error("it was counted") }
	for range 3 {
		g.ask(t, "GET", "/metrics", "")
		g.ask(t, "GET", "/dashboard/live", "", "Cookie", cookieName+"=1.ab")
	}
}

func TestTheMemoryOfWrongTokensIsBounded(t *testing.T) {
	var s strangers
	now := time.Unix(0, 0)
	for i := range 5 * maxStrangers {
		s.wrong(fmt.Sprint(i), now)
		now = now.Add(time.Millisecond)
	}
	if n := len(s.young) + len(s.old); n > 2*maxStrangers || n < maxStrangers {
		t.Errorf("%d addresses are remembered, want between %d and twice as many", n, maxStrangers)
	}
	if wait, _ := s.wrong(fmt.Sprint(5*maxStrangers-1), now); wait != firstPause {
		t.Errorf("the last of them waits %v, want %v", wait, firstPause)
	}
}
