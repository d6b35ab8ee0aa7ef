package upstream

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/fault"
)

// bodyOf is a body of p over from, with the context of its connection.
func bodyOf(t *testing.T, p *Provider, from io.Reader) (*body, context.Context) {
	t.Helper()
	inner, cancel := context.WithCancelCause(t.Context())
	return newBody(t.Context(), inner, cancel, p, io.NopCloser(from), newPayload(nil)), inner
}

func TestASlowClientDoesNotCountAgainstTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider("a", func(p *Provider) { p.Timeouts.Idle = time.Second })
		b, connection := bodyOf(t, p, strings.NewReader("ab"))
		for range 2 {
			if _, err := b.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		if connection.Err() != nil {
			t.Errorf("the connection was ended: %v", context.Cause(connection))
		}
		b.Close()
		if connection.Err() == nil {
			t.Errorf("closing left the connection open")
		}
	})
}

func TestTheIdleTimeoutBeginsAnewWithEveryRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider("a", func(p *Provider) { p.Timeouts.Idle = time.Second })
		from, to := io.Pipe()
		b, connection := bodyOf(t, p, from)
		context.AfterFunc(connection, func() { to.CloseWithError(context.Cause(connection)) })
		go func() {
			for range 5 {
				time.Sleep(900 * time.Millisecond)
				to.Write([]byte("x"))
			}
		}()
		start := time.Now()
		got, err := io.ReadAll(b)
		if f := fault.From(err); string(got) != "xxxxx" || f.Code != fault.UpstreamTimeout {
			t.Errorf("read %q, then %v", got, err)
		}
		if d := time.Since(start); d != 5500*time.Millisecond {
			t.Errorf("it ended after %s", d)
		}
	})
}

func TestWithoutAnIdleTimeoutABodyMayRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		b, connection := bodyOf(t, provider("a", nil), from)
		go func() {
			time.Sleep(24 * time.Hour)
			to.CloseWithError(errors.New("reset"))
		}()
		_, err := io.ReadAll(b)
		if f := fault.From(err); f.Code != fault.UpstreamError || connection.Err() != nil {
			t.Errorf("it ended with %v", err)
		}
		b.Close()
	})
}

func TestAnErrorHasToComeWholeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		b, connection := bodyOf(t, provider("a", func(p *Provider) { p.Timeouts.Idle = time.Minute }), from)
		b.isError()
		context.AfterFunc(connection, func() { to.CloseWithError(context.Cause(connection)) })
		var writer sync.WaitGroup
		defer writer.Wait()
		writer.Go(func() {
			for connection.Err() == nil {
				to.Write([]byte("x"))
				time.Sleep(999 * time.Millisecond)
			}
		})
		time.Sleep(time.Hour) // nobody reads: that is no time of the provider's
		start := time.Now()
		got, err := io.ReadAll(b)
		if f := fault.From(err); f.Code != fault.UpstreamTimeout || !strings.Contains(f.Message, "3s") {
			t.Errorf("it ended with %v", err)
		}
		if d := time.Since(start); d != errorTime || len(got) != 4 {
			t.Errorf("it ended after %s with %q", d, got)
		}
	})
}
