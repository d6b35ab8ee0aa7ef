package upstream

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestAStreamIsReadNoFurtherThanItsFirstEvent(t *testing.T) {
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
		{"an event", strings.NewReader("one\ntwo\n"), "one\ntwo\n", "", "", nil},
		{"an event byte by byte", iotest.OneByteReader(strings.NewReader("one\ntwo\n")), "one\n", "two\n", "", nil},
		{"an error byte by byte", iotest.OneByteReader(strings.NewReader("error busy\nmore\n")), "error busy\n", "more\n", "busy", nil},
		{"a comment", iotest.OneByteReader(strings.NewReader(": queued\none\n")), ": queued\n", "one\n", "", nil},
		{"a comment that is not whole", io.MultiReader(strings.NewReader(": que"), strings.NewReader("ued\n"), strings.NewReader("one\n")), ": queued\n", "one\n", "", nil},
		{"a blank line", io.MultiReader(strings.NewReader("\r\n"), strings.NewReader("one\n")), "\r\n", "one\n", "", nil},
		{"a byte order mark and a comment", io.MultiReader(strings.NewReader("\xef\xbb\xbf: hi\n"), strings.NewReader("one\n")), "\xef\xbb\xbf: hi\n", "one\n", "", nil},
		{"nothing", strings.NewReader(""), "", "", "", io.ErrUnexpectedEOF},
		{"the end before an event is whole", strings.NewReader("on"), "on", "", "", io.EOF},
		{"a break before an event is whole", io.MultiReader(strings.NewReader("on"), broke{broken}), "on", "", "", broken},
		{"a break at once", broke{broken}, "", "", "", broken},
		{"an event larger than any error", strings.NewReader(long + "\n"), long[:maxPeek], long[maxPeek:] + "\n", "", nil},
	} {
		m := &lineMeter{}
		prefix, err := peek(s.from, m)
		if string(prefix) != s.prefix || !errors.Is(err, s.err) {
			t.Errorf("%s: released %.40q with %v, want %.40q with %v", s.what, prefix, err, s.prefix, s.err)
		}
		if f := m.report.Failure; (f == nil) != (s.failure == "") || f != nil && f.Type != s.failure {
			t.Errorf("%s: the failure is %+v", s.what, f)
		}
		if err != nil {
			continue
		}
		if rest, _ := io.ReadAll(s.from); string(rest) != s.rest {
			t.Errorf("%s: %.40q is left, want %.40q", s.what, rest, s.rest)
		}
	}
}
