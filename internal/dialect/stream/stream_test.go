package stream

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// event is what a test sees of an event.
type event struct{ name, data string }

func (e event) String() string { return fmt.Sprintf("%s:%.40q", e.name, e.data) }

// read feeds the pieces to a new Reader and returns its events. It checks that
// every step uses some bytes, and that framing ends where it is told to.
func read(t *testing.T, f Format, pieces ...string) []event {
	t.Helper()
	r := New(f)
	var events []event
	var data []byte
	last := End
	for _, piece := range pieces {
		for p := []byte(piece); len(p) > 0; {
			n, part, what := r.Next(p)
			if n < 1 || n > len(p) {
				t.Fatalf("%d bytes of %d were used", n, len(p))
			}
			switch what {
			case Data, Join:
				data = append(data, part...)
				if what == Data && &part[0] != &p[n-len(part)] {
					t.Fatal("data are not the last bytes used")
				}
			case End:
				events = append(events, event{string(r.Name()), string(data)})
				data = data[:0]
			case Tail:
				if last != End && last != Gap {
					t.Fatalf("a tail follows %d", last)
				}
			}
			last = what
			p = p[n:]
		}
	}
	if r.Finish() {
		events = append(events, event{string(r.Name()), string(data)})
	} else if len(data) > 0 {
		t.Fatalf("%q is left, and no event is pending", data)
	}
	return events
}

func cuts(text string, seed uint64) [][]string {
	random := rand.New(rand.NewPCG(seed, 2))
	var pieces []string
	for rest := text; rest != ""; {
		n := 1 + random.IntN(min(len(rest), 9))
		pieces, rest = append(pieces, rest[:n]), rest[n:]
	}
	return [][]string{bytewise(text), pieces}
}

func bytewise(text string) []string {
	var pieces []string
	for i := range len(text) {
		pieces = append(pieces, text[i:i+1])
	}
	return pieces
}

func TestC10EventsAreTheSameHoweverTheyAreWrittenAndCut(t *testing.T) {
	two := []event{{"", `{"a":1}`}, {"", "[DONE]"}}
	for _, s := range []struct {
		what   string
		format Format
		text   string
		want   []event
	}{
		{"LF", SSE, "data: {\"a\":1}\n\ndata: [DONE]\n\n", two},
		{"CRLF", SSE, "data: {\"a\":1}\r\n\r\ndata: [DONE]\r\n\r\n", two},
		{"CR", SSE, "data: {\"a\":1}\r\rdata: [DONE]\r\r", two},
		{"line ends mixed", SSE, "data: {\"a\":1}\n\r\ndata: [DONE]\r\n\r", two},
		{"no space", SSE, "data:{\"a\":1}\n\ndata:[DONE]\n\n", two},
		{"one space is taken away, not two", SSE, "data:  x\n\n", []event{{"", " x"}}},
		{"a byte order mark", SSE, "\xef\xbb\xbfdata: {\"a\":1}\n\ndata: [DONE]\n\n", two},
		{"half a byte order mark spoils its line", SSE, "\xef\xbbdata: x\n\ndata: y\n\n", []event{{"", "y"}}},
		{"comments", SSE, ": hello\n\n:\ndata: {\"a\":1}\n: data: no\n\n\n\n: x\ndata: [DONE]\n\n", two},
		{"no final blank line", SSE, "data: {\"a\":1}\n\ndata: [DONE]\n", two},
		{"no final line end", SSE, "data: {\"a\":1}\n\ndata: [DONE]", two},
		{"several data lines", SSE, "data: {\"a\":\ndata:1\ndata: }\n\n", []event{{"", "{\"a\":\n1\n}"}}},
		{"names, ids and retries in any order", SSE, "id: 7\ndata: 1\nevent: one\nretry: 3\n\nevent:two\ndata: 2\n\ndata: 3\n\n", []event{{"one", "1"}, {"two", "2"}, {"", "3"}}},
		{"a name without data is no event, and is forgotten", SSE, "event: ping\n\ndata: 1\n\n", []event{{"", "1"}}},
		{"empty data is no event", SSE, "data:\n\ndata\n\ndata: 1\n\n", []event{{"", "1"}}},
		{"a field whose name begins with data", SSE, "database: x\ndat: y\nData: z\n data: w\n\n", nil},
		{"colons in data", SSE, "data: a: b:\n\n", []event{{"", "a: b:"}}},

		{"lines", Lines, "{\"a\":1}\n{\"b\":2}\n", []event{{"", `{"a":1}`}, {"", `{"b":2}`}}},
		{"lines with CRLF, blank ones and no end", Lines, "\xef\xbb\xbf\r\n  \n{\"a\":1}\r\n\r\n{\"b\":2}", []event{{"", "{\"a\":1}\r"}, {"", `{"b":2}`}}},

		{"an array", Array, "[{\"a\":[1,\"]\"]}\n,\r\n{\"b\":\"\\\"},\\\\\"}]\n", []event{{"", "{\"a\":[1,\"]\"]}\n"}, {"", `{"b":"\"},\\"}`}}},
		{"an empty array", Array, " [ ] ", nil},
		{"an array that is cut", Array, `[{"a":1},{"b`, []event{{"", `{"a":1}`}, {"", `{"b`}}},
		{"scalars in an array", Array, `[1,"a,b",null]`, []event{{"", "1"}, {"", `"a,b"`}, {"", "null"}}},
		{"an object instead of an array", Array, ` {"error":[1,2]}`, []event{{"", `{"error":[1,2]}`}}},

		{"a document", Document, "{\n}", []event{{"", "{\n}"}}},
		{"no document", Document, "", nil},

		{"frames", Frames, frame("event", "one", "{}") + frame("exception", "bad", "") + frame("event", "", strings.Repeat("x", 70000)), []event{{"one", "{}"}, {"bad", ""}, {"", strings.Repeat("x", 70000)}}},
		{"a frame that is cut", Frames, frame("event", "one", "{}") + half(frame("event", "two", "{}")), []event{{"one", "{}"}, {"two", "{}"}}},
		{"nothing behind a broken head", Frames, frame("event", "one", "{}") + "0123456789ab" + frame("event", "two", "{}"), []event{{"one", "{}"}}},
	} {
		if got := read(t, s.format, s.text); !slices.Equal(got, s.want) {
			t.Errorf("%s: got %v, want %v", s.what, got, s.want)
		}
		for _, pieces := range cuts(s.text, 1) {
			if got := read(t, s.format, pieces...); !slices.Equal(got, s.want) {
				t.Errorf("%s, in pieces: got %v, want %v", s.what, got, s.want)
			}
		}
	}
}

func TestTheEndMarkIsToldFromTextThatHoldsIt(t *testing.T) {
	for text, want := range map[string]bool{
		"data: [DONE]\n\n":         true,
		"data:[DONE]\n\n":          true,
		"data: [DONE] \n\n":        true,
		"data: [DON\n\n":           false,
		"data: \"[DONE]\"\n\n":     false,
		"data: {\"x\":[DONE]}\n\n": false,
		"data: x[DONE]\n\n":        false,
	} {
		r := New(SSE)
		got := false
		for _, piece := range bytewise(text) {
			if _, _, what := r.Next([]byte(piece)); what == End {
				got = r.Done()
			}
		}
		if got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestATailBelongsToTheEventBeforeIt(t *testing.T) {
	r := New(SSE)
	var whats []What
	for _, piece := range []string{"data: x\r\n", "\r", "\n", "data: y\n\n"} {
		for p := []byte(piece); len(p) > 0; {
			n, _, what := r.Next(p)
			if what != More {
				whats = append(whats, what)
			}
			p = p[n:]
		}
	}
	if want := []What{Data, End, Tail, Data, End}; !slices.Equal(whats, want) {
		t.Errorf("got %v, want %v", whats, want)
	}
}

func TestBetweenEventsAnotherMayStand(t *testing.T) {
	r := New(SSE)
	for _, s := range []struct {
		piece string
		want  bool
	}{{"", true}, {"data: x", false}, {"\n", false}, {"\r", true}, {"\n", true}, {": comment", false}, {"\n\n", true}, {"event: x\n", false}, {"\n", true}} {
		for p := []byte(s.piece); len(p) > 0; {
			n, _, _ := r.Next(p)
			p = p[n:]
		}
		if r.Between() != s.want {
			t.Errorf("after %q: got %v, want %v", s.piece, r.Between(), s.want)
		}
	}
}

var lineEnds = regexp.MustCompile(`\r\n|\r|\n`)

// plainSSE reads a whole stream the way the standard describes it.
func plainSSE(text string) []event {
	text = strings.TrimPrefix(text, "\xef\xbb\xbf")
	var events []event
	var e event
	var data []string
	flush := func() {
		if e.data = strings.Join(data, "\n"); e.data != "" {
			events = append(events, e)
		}
		e, data = event{}, nil
	}
	for _, line := range lineEnds.Split(text, -1) {
		if line == "" {
			flush()
			continue
		}
		name, value, colon := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "data" && colon:
			data = append(data, value)
		case name == "event" && colon:
			e.name = value[:min(len(value), maxName)]
		}
	}
	flush()
	return events
}

func FuzzSSEReadsAsTheStandardSays(f *testing.F) {
	for i, text := range []string{
		"data: a\n\ndata: b\r\n\r\n", "\xef\xbb\xbfdata:a\rdata: b\r\r", "event: e\ndata:\ndata:\n\n", ": c\n\n\ndata", "data:\r\r\ndata: x", "\xefdata: x\n\n",
	} {
		f.Add(text, uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if len(text) < 3 && strings.HasPrefix(text, "\xef") {
			return // a mark that is not yet one
		}
		want := plainSSE(text)
		for _, pieces := range append(cuts(text, seed), []string{text}) {
			if got := read(t, SSE, pieces...); !slices.Equal(got, want) {
				t.Fatalf("%q as %q: got %v, want %v", text, pieces, got, want)
			}
		}
	})
}

func FuzzFormatsDoNotDependOnCuts(f *testing.F) {
	f.Add([]byte(frame("event", "a", `{"b":1}`)), uint8(Frames), uint64(1))
	f.Add([]byte(`[{"a":1},[2],"x\"]"]`), uint8(Array), uint64(2))
	f.Add([]byte("{}\n\r\n[]\n"), uint8(Lines), uint64(3))
	f.Fuzz(func(t *testing.T, text []byte, format uint8, seed uint64) {
		which := Format(format % 5)
		want := read(t, which, string(text))
		for _, pieces := range cuts(string(text), seed) {
			if got := read(t, which, pieces...); !slices.Equal(got, want) {
				t.Fatalf("format %d, %q: got %v, want %v", which, text, got, want)
			}
		}
	})
}

func TestALargeEventIsNotHeld(t *testing.T) {
	for _, format := range []Format{Document, SSE, Lines, Array} {
		r := New(format)
		piece := bytes.Repeat([]byte("x"), 64<<10)
		prefix := map[Format]string{SSE: "data: ", Array: `["`}[format]
		for p := []byte(prefix); len(p) > 0; {
			n, _, _ := r.Next(p)
			p = p[n:]
		}
		allocs := testing.AllocsPerRun(100, func() {
			if n, data, _ := r.Next(piece); n != len(piece) || len(data) != n {
				t.Fatalf("format %d: %d bytes used, %d told", format, n, len(data))
			}
		})
		if allocs > 0 {
			t.Errorf("format %d: %v allocations for a piece", format, allocs)
		}
	}
}

func BenchmarkSSE(b *testing.B) {
	text := []byte(strings.Repeat("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" hello\"}}]}\n\n", 100))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	r := New(SSE)
	for b.Loop() {
		for p := text; len(p) > 0; {
			n, _, _ := r.Next(p)
			p = p[n:]
		}
	}
}
