package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// closed keeps every connection busy, but for p.pause between its requests.
func (p *plan) closed() (result, error) {
	return p.measure(func(c *conn, t *tally, from, until time.Time) {
		if p.pause > 0 {
			runtime.LockOSThread()
		}
		for {
			sleepUntil(time.Now().Add(p.pause))
			began := time.Now()
			if began.After(until) {
				return
			}
			a, err := c.roundTrip(p)
			if began.Before(from) && err == nil {
				continue
			}
			t.add(a, err, time.Since(began))
			t.late = append(t.late, c.late...)
			if err != nil && !c.again(p) {
				return
			}
		}
	})
}

// open sends requests at a steady rate. Latency counts from when a request was
// due, so a server that is late is not forgiven for the requests that waited.
func (p *plan) open() (result, error) {
	interval := time.Duration(float64(time.Second) / p.rate)
	due := make(chan time.Time, 100_000)
	begin := time.Now().Add(100 * time.Millisecond)
	go func() {
		defer close(due)
		runtime.LockOSThread()
		end := begin.Add(p.warmup + p.duration)
		for at := begin; at.Before(end); at = at.Add(interval) {
			sleepUntil(at)
			due <- at
		}
	}()
	return p.measure(func(c *conn, t *tally, from, _ time.Time) {
		for at := range due {
			a, err := c.roundTrip(p)
			if at.Before(from) && err == nil {
				continue
			}
			t.add(a, err, time.Since(at))
			if err != nil && !c.again(p) {
				return
			}
		}
	})
}

// sleepUntil is more exact than the runtime's timers, which may be a
// millisecond late. It blocks the thread.
func sleepUntil(at time.Time) {
	for d := time.Until(at); d > 0; d = time.Until(at) {
		pause := syscall.NsecToTimespec(d.Nanoseconds())
		_ = syscall.Nanosleep(&pause, nil) // interrupted: the loop goes on
	}
}

// measure runs work on every connection and gathers what they counted.
func (p *plan) measure(work func(c *conn, t *tally, from, until time.Time)) (result, error) {
	conns := make([]*conn, p.connections)
	for i := range conns {
		c, err := p.dial(i)
		if err != nil {
			return result{}, err
		}
		defer func() { _ = c.Close() }() // it may have broken
		conns[i] = c
	}
	from := time.Now().Add(p.warmup)
	until := from.Add(p.duration)
	tallies := make([]tally, p.connections)
	var all sync.WaitGroup
	for i, c := range conns {
		all.Go(func() { work(c, &tallies[i], from, until) })
	}
	all.Wait()
	return summarize(tallies, time.Since(from)), nil
}

// again replaces a connection that broke. It reports whether it could.
func (c *conn) again(p *plan) bool {
	_ = c.Close() // it broke
	fresh, err := p.dial(c.number)
	if err != nil {
		return false
	}
	*c = *fresh
	return true
}

// idle opens streams until each has said something, says "ready" on stdout,
// and holds them until stdin ends.
func (p *plan) idle() error {
	conns := make([]*conn, p.connections)
	errs := make(chan error, p.connections)
	gate := make(chan struct{}, 64) // at once
	for i := range conns {
		gate <- struct{}{}
		go func() {
			defer func() { <-gate }()
			errs <- func() error {
				c, err := p.dial(i)
				if err != nil {
					return err
				}
				conns[i] = c
				a, length, err := c.begin(time.Now())
				if err != nil {
					return err
				}
				if a.status != http.StatusOK || length >= 0 {
					return fmt.Errorf("stream %d: status %d", i, a.status)
				}
				_, err = c.piece()
				return err
			}()
		}()
	}
	for range conns {
		if err := <-errs; err != nil {
			return err
		}
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	for _, c := range conns {
		_ = c.Close() // the streams are not wanted any more
	}
	return err
}
