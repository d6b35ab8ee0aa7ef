package redisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/redistest"
)

// connected is a connection as the store makes them, and its other end.
func connected(t *testing.T, timeout time.Duration) (all *conns, near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	all = newConns()
	near, err = all.dialer(timeout, time.Minute, nil)(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	return all, near, far
}

func TestAnAnswerThatLiesInTheSocketIsNotLate(t *testing.T) {
	all, near, far := connected(t, time.Millisecond)
	past := time.Now().Add(-time.Hour)
	near.SetWriteDeadline(past)
	if _, err := near.Write([]byte("call")); err != nil {
		t.Fatalf("a call after its time: got %v, want it sent", err)
	}
	far.Write([]byte("answer"))
	await(t, "the answer arrives", func() bool { return all.silence(time.Millisecond) == 0 })
	near.SetReadDeadline(past)
	got := make([]byte, 10)
	if n, err := near.Read(got); string(got[:n]) != "answer" || err != nil {
		t.Errorf("got %q and %v, want the answer", got[:n], err)
	}
	if d := all.silence(time.Millisecond); d != 0 {
		t.Errorf("Redis answered, and is held to have been silent for %v", d)
	}
}

func TestARedisHasItsTimeoutFromWhenTheCallWasSent(t *testing.T) {
	_, near, far := connected(t, time.Minute)
	if _, err := near.Write([]byte("call")); err != nil {
		t.Fatal(err)
	}
	near.SetReadDeadline(time.Now().Add(-time.Hour))
	done := make(chan error)
	go func() {
		_, err := near.Read(make([]byte, 10))
		done <- err
	}()
	far.Write([]byte("answer"))
	if err := <-done; err != nil {
		t.Errorf("got %v, want an answer that came within the minute", err)
	}
}

func TestARedisThatSaysNothingIsNotWaitedFor(t *testing.T) {
	all, near, _ := connected(t, 10*time.Millisecond)
	if _, err := near.Write([]byte("call")); err != nil {
		t.Fatal(err)
	}
	near.SetReadDeadline(time.Now())
	if _, err := near.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want %v", err, os.ErrDeadlineExceeded)
	}
	if all.silence(time.Hour) != time.Hour {
		t.Error("the next call is not known to find no answer")
	}
}

// A process without a processor stands still anywhere: before it sends a call,
// when the answer is there, and when it has read it. Only between sending and the
// answer it is Redis that keeps a caller waiting.
func TestOnlyARedisThatOwesAnAnswerIsSilent(t *testing.T) {
	all, near, far := connected(t, time.Millisecond)
	silent := func() bool { return all.silence(time.Hour) > 0 }
	if silent() {
		t.Error("before a call was sent")
	}
	if _, err := near.Write([]byte("call")); err != nil {
		t.Fatal(err)
	}
	await(t, "an answer is owed", silent)
	if _, err := far.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	await(t, "the answer is there", func() bool { return !silent() })
	if _, err := near.Read(make([]byte, 10)); err != nil || silent() {
		t.Errorf("when the answer was read, with %v", err)
	}
}

// A batcher that gets no time is this process's fault: its callers wait on.
func TestACallerWaitsForALateLaneAndNotForAFrozenRedis(t *testing.T) {
	r := redistest.Start(t)
	s := openOn(t, r, 30*time.Millisecond)
	l := tpm(100)
	reserve(t, s, request("first", l, 1))

	late, entered := make(chan struct{}), make(chan struct{})
	s.Enqueue(settlement("first", l, 1), func(budget.Settled, error) { close(entered); <-late })
	<-entered // the batcher's goroutine is in there, as if it had no processor
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	answered := make(chan error)
	go func() {
		_, err := s.Reserve(ctx, request("second", l, 1))
		answered <- err
	}()
	queued(t, s, 1)
	<-ctx.Done()
	close(late)
	if err := <-answered; err != nil {
		t.Errorf("its time passed while the batcher was late: got %v, want an answer", err)
	}

	r.Pause()
	defer r.Resume()
	ctx, cancel = context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if _, err := s.Reserve(ctx, request("third", l, 1)); err == nil || errors.Is(err, budget.ErrOverloaded) {
		t.Errorf("of a Redis that stands still: got %v, want an outage", err)
	}
}

func TestALaneThatStaysLateIsAnOverload(t *testing.T) {
	r := redistest.Start(t)
	s := openOn(t, r, 30*time.Millisecond)
	l := tpm(100)
	reserve(t, s, request("first", l, 1))
	late, entered := make(chan struct{}), make(chan struct{})
	defer close(late)
	s.Enqueue(settlement("first", l, 1), func(budget.Settled, error) { close(entered); <-late })
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := s.Reserve(ctx, request("second", l, 1)); !errors.Is(err, budget.ErrOverloaded) {
		t.Errorf("got %v, want %v", err, budget.ErrOverloaded)
	}
}
