package upstream

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

func TestAStreamIsReadNoFurtherThanItsFirstContent(t *testing.T) {
	broken := errors.New("reset")
	long := strings.Repeat("x", maxPeek+5000)
	for _, s := range []struct {
		what    string
		from    io.Reader
		prefix  string
		rest    string
		failure string
		err     error
	}{
		{"all events that came with it", strings.NewReader("one\ntwo\n"), "one\ntwo\n", "", "", nil},
		{"an event byte by byte", iotest.OneByteReader(strings.NewReader("one\ntwo\n")), "one\n", "two\n", "", nil},
		{"an error byte by byte", iotest.OneByteReader(strings.NewReader("error busy\nmore\n")), "error busy\n", "more\n", "busy", nil},
		{"a comment", iotest.OneByteReader(strings.NewReader(": queued\none\ntwo\n")), ": queued\none\n", "two\n", "", nil},
		{"blank lines", iotest.OneByteReader(strings.NewReader("\n\none\ntwo\n")), "\n\none\n", "two\n", "", nil},
		{"what announces an answer", iotest.OneByteReader(strings.NewReader("ready\nready\none\ntwo\n")), "ready\nready\none\n", "two\n", "", nil},
		{"an error after it", iotest.OneByteReader(strings.NewReader(": queued\nready\nerror busy\nmore\n")), ": queued\nready\nerror busy\n", "more\n", "busy", nil},
		{"nothing", strings.NewReader(""), "", "", "", io.ErrUnexpectedEOF},
		{"comments alone", strings.NewReader(": queued\n"), "", "", "", io.ErrUnexpectedEOF},
		{"an announcement alone", strings.NewReader(": queued\nready\n"), "", "", "", io.ErrUnexpectedEOF},
		{"a break before an event is whole", io.MultiReader(strings.NewReader("on"), broke{broken}), "on", "", "", broken},
		{"a break after an announcement", io.MultiReader(strings.NewReader("ready\n"), broke{broken}), "ready\n", "", "", broken},
		{"a break at once", broke{broken}, "", "", "", broken},
		{"an event larger than all that is held", strings.NewReader(long + "\n"), long[:maxPeek], long[maxPeek:] + "\n", "", nil},
	} {
		m := &lineMeter{}
		prefix, left, err := peek(io.NopCloser(s.from), m)
		if string(prefix) != s.prefix || !errors.Is(err, s.err) {
			t.Errorf("%s: released %.40q with %v, want %.40q with %v", s.what, prefix, err, s.prefix, s.err)
		}
		if f := m.report.Failure; (f == nil) != (s.failure == "") || f != nil && f.Type != s.failure {
			t.Errorf("%s: the failure is %+v", s.what, f)
		}
		if err != nil {
			continue
		}
		if rest, _ := io.ReadAll(left); string(rest) != s.rest {
			t.Errorf("%s: %.40q is left, want %.40q", s.what, rest, s.rest)
		}
	}
}

// A provider may send its header long before it knows what to say.
func TestAStreamIsNotHeldForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, s := range map[string]struct {
			writes []string // one every patience
			read   int      // bytes at a time
			err    error
		}{
			"events that come late":    {[]string{"one\n", "two\n"}, 100, io.EOF},
			"comments that go on":      {[]string{": queued\n", ": queued\n", "one\n"}, 100, io.EOF},
			"read in small pieces":     {[]string{"one\n", "two\n"}, 1, io.EOF},
			"an error that comes late": {[]string{"error busy\n"}, 100, io.EOF},
			"a break that comes late":  {nil, 100, io.ErrUnexpectedEOF},
		} {
			from, to := io.Pipe()
			go func() {
				for _, w := range s.writes {
					time.Sleep(patience + time.Second)
					to.Write([]byte(w))
				}
				time.Sleep(patience + time.Second)
				to.CloseWithError(s.err)
			}()
			start := time.Now()
			prefix, rest, err := peek(from, &lineMeter{})
			if d := time.Since(start); err != nil || len(prefix) != 0 || d != patience {
				t.Errorf("%s: %q, %v after %s", what, prefix, err, d)
			}
			var got []byte
			for err == nil {
				p := make([]byte, s.read)
				var n int
				n, err = rest.Read(p)
				got = append(got, p[:n]...)
			}
			if want := strings.Join(s.writes, ""); string(got) != want || err != s.err {
				t.Errorf("%s: then %q, %v", what, got, err)
			}
			if _, again := rest.Read(make([]byte, 1)); again != s.err {
				t.Errorf("%s: after the end: %v", what, again)
			}
			rest.Close()
		}
	})
}

func TestClosingAStreamThatIsQuietEndsTheReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine stays
		from, _ := io.Pipe()
		_, rest, err := peek(from, &lineMeter{})
		if err != nil {
			t.Fatal(err)
		}
		rest.Close()
		if _, err := rest.Read(make([]byte, 1)); err == nil {
			t.Errorf("a closed stream can be read")
		}
	})
}

// What is held costs a healthy stream nothing: its content passes as it comes.
func TestHoldingDoesNotDelayTheFirstContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		go func() {
			for _, w := range []string{": queued\n", "ready\n", "one\n"} {
				time.Sleep(patience / 4)
				to.Write([]byte(w))
			}
		}()
		start := time.Now()
		prefix, rest, err := peek(from, &lineMeter{})
		if d := time.Since(start); err != nil || string(prefix) != ": queued\nready\none\n" || d != 3*patience/4 {
			t.Errorf("%q, %v after %s", prefix, err, d)
		}
		rest.Close()
	})
}
