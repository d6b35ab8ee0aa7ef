package redisstore

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/budgettest"
	"llmgw/internal/redistest"
	"llmgw/internal/testenv"
)

// server is what most tests share; nil if they need nothing but Go.
var server *redistest.Server

func TestMain(m *testing.M) {
	if testenv.Unit() {
		os.Exit(m.Run())
	}
	var err error
	if server, err = redistest.New(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	server.Close()
	os.Exit(code)
}

var prefixes atomic.Int64

// open makes a store with keys of its own on the shared server.
func open(t testing.TB) *Store {
	t.Helper()
	testenv.Program(t, "redis-server")
	s, err := Open(Options{Addrs: []string{server.Addr}, Prefix: fmt.Sprint("t", prefixes.Add(1)), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestTheRedisStoreKeepsTheContract(t *testing.T) {
	budgettest.Run(t, func(t *testing.T) (budget.Store, budgettest.Advance) {
		s := open(t)
		now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
		s.SetClock(now)
		return s, func(d time.Duration) {
			now = now.Add(d)
			s.SetClock(now)
		}
	})
}
