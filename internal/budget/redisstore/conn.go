package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A process that is short of CPU reads an answer long after Redis gave it. That
// must not look like a Redis that is away, so the time of an answer is measured
// at the socket: a conn fails only if, timeout after it sent a call, nothing
// lies there to be read.

// conn is a connection to Redis. One goroutine uses it at a time.
type conn struct {
	*net.TCPConn
	all     *conns
	timeout time.Duration // the least that Redis has for an answer
	sent    atomic.Int64  // when the latest call was sent, by conns.elapsed; 0: something was read since
}

// conns are the connections of a Store.
type conns struct {
	began   time.Time    // what elapsed counts from
	open    sync.Map     // *conn → true
	dialing atomic.Int32 // those that are being made
	silent  atomic.Bool  // one got no answer in its time, and none has since
}

func newConns() *conns { return &conns{began: time.Now()} }

// elapsed is the time of a moment, never 0.
func (s *conns) elapsed() int64 { return int64(time.Since(s.began)) + 1 }

// dialer returns the function that connects the client to Redis.
func (s *conns) dialer(timeout, dialTimeout time.Duration, secure *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	d := net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		s.dialing.Add(1)
		raw, err := d.DialContext(ctx, network, addr)
		s.dialing.Add(-1)
		if err != nil {
			return nil, err
		}
		tcp, ok := raw.(*net.TCPConn)
		if !ok {
			return raw, nil
		}
		c := &conn{TCPConn: tcp, all: s, timeout: timeout}
		s.open.Store(c, true)
		if secure == nil {
			return c, nil
		}
		return handshake(ctx, c, addr, secure, dialTimeout)
	}
}

func handshake(ctx context.Context, c *conn, addr string, secure *tls.Config, timeout time.Duration) (net.Conn, error) {
	secure = secure.Clone()
	if secure.ServerName == "" {
		secure.ServerName, _, _ = net.SplitHostPort(addr)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	over := tls.Client(c, secure)
	if err := over.HandshakeContext(ctx); err != nil {
		_ = c.Close() // the other error is the one to know
		return nil, err
	}
	return over, nil
}

// Write sends p. A deadline that passed before the first byte could be sent is
// this process's own delay: p then gets timeout from now.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.SetWriteDeadline(time.Now().Add(c.timeout)) // a closed connection fails in the next line
		n, err = c.TCPConn.Write(p)
	}
	c.sent.Store(c.all.elapsed())
	return n, err
}

// Read reads what Redis answered. After the read deadline it returns what lies
// in the socket, and gives Redis the rest of timeout since the call was sent.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	for errors.Is(err, os.ErrDeadlineExceeded) {
		left := c.timeout - c.waited()
		until := time.Now().Add(max(left, glance))
		if readable(c.TCPConn) {
			until = time.Time{} // the read ends at once, however late it begins
		}
		_ = c.SetReadDeadline(until) // as in Write
		n, err = c.TCPConn.Read(p)
		if left <= 0 {
			break
		}
	}
	c.sent.Store(0)
	c.all.silent.Store(errors.Is(err, os.ErrDeadlineExceeded))
	return n, err
}

// waited is for how long c has waited for an answer; 0 if it waits for none.
func (c *conn) waited() time.Duration {
	sent := c.sent.Load()
	if sent == 0 {
		return 0
	}
	return time.Duration(c.all.elapsed() - sent)
}

// Close closes the connection.
func (c *conn) Close() error {
	c.all.open.Delete(c)
	return c.TCPConn.Close()
}

// silence is for how long Redis has owed an answer of which nothing has come, at
// least timeout if it lets connections wait or did not answer the last call. It is
// 0 if Redis owes nothing: a call that was not sent yet, or whose answer was read
// and not looked at, is this process's delay.
func (s *conns) silence(timeout time.Duration) (longest time.Duration) {
	if s.silent.Load() || s.dialing.Load() > 0 {
		return timeout
	}
	s.open.Range(func(k, _ any) bool {
		c := k.(*conn)
		if d := c.waited(); d > longest && !readable(c.TCPConn) {
			longest = d
		}
		return true
	})
	return longest
}
