package watch

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

// sample is an API like OpenAI's chat, small enough to see through.
var sample = func() *API {
	places := Places{
		"id": ID, "model": Model, "error": Failed, "error.message": ErrorMessage, "error.code": ErrorCode,
		"choices.*": Choice, "choices.*.index": Index, "choices.*.finish_reason": Finish, "choices.*.text": Text, "choices.*.thought": Thought, "choices.*.thought2": ThoughtToo,
		"usage": Usage, "usage.in": Prompt, "usage.out": Output, "usage.total": Total, "usage.details.cached": Cached, "usage.cached": Cached, "usage.reasoning": Reasoning,
	}
	return &API{Document: Tree(places), Event: Tree(places), Hideable: true}
}()

func bytesOf(text []byte) tokens.Count { return tokens.Count(len(text)) }

func meter(api *API, hide bool, header ...string) *Meter {
	h := dialect.Header{"Content-Type": {"text/event-stream"}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return New(api, &dialect.Call{Stream: true, Choices: 1}, dialect.Answer{Status: 200, Header: h}, dialect.MeterOptions{HideUsage: hide, Count: bytesOf})
}

// events frames documents as a stream.
func events(documents ...string) []byte {
	return []byte("data: " + strings.Join(documents, "\n\ndata: ") + "\n\n")
}

// run feeds an answer whole.
func run(m *Meter, answer []byte) (string, dialect.Report) {
	out := append([]byte(nil), m.Feed(answer)...)
	out = append(out, m.End()...)
	return string(out), m.Report()
}

func TestUsageIsMergedFieldByFieldAndTheLastWins(t *testing.T) {
	const text = `{"choices":[{"text":"a"}]}`
	for _, s := range []struct {
		what          string
		events        []string
		want          tokens.Usage
		input, output bool
	}{
		{"none", []string{text}, tokens.Usage{}, false, false},
		{"null", []string{text, `{"usage":null}`}, tokens.Usage{}, false, false},
		{"one", []string{text, `{"usage":{"in":3,"out":4}}`}, tokens.Usage{Input: 3, Output: 4}, true, true},
		{"twice the same", []string{`{"usage":{"in":3,"out":4}}`, `{"usage":{"in":3,"out":4}}`}, tokens.Usage{Input: 3, Output: 4}, true, true},
		{"growing", []string{`{"usage":{"in":3,"out":0}}`, text, `{"usage":{"in":3,"out":7}}`}, tokens.Usage{Input: 3, Output: 7}, true, true},
		{"in halves", []string{`{"usage":{"in":3}}`, text, `{"usage":{"out":7}}`}, tokens.Usage{Input: 3, Output: 7}, true, true},
		{"null behind", []string{`{"usage":{"in":3,"out":4}}`, `{"usage":{"in":null,"out":null}}`, `{"usage":null}`}, tokens.Usage{Input: 3, Output: 4}, true, true},
		{"zeros before", []string{`{"usage":{"in":0,"out":0}}`, text, `{"usage":{"in":3,"out":4}}`}, tokens.Usage{Input: 3, Output: 4}, true, true},
		{"zeros behind", []string{`{"usage":{"in":3,"out":4}}`, `{"usage":{"in":0,"out":0}}`}, tokens.Usage{Input: 3, Output: 4}, true, true},
		{"only zeros with text", []string{text, `{"usage":{"in":0,"out":0}}`, `[DONE]`}, tokens.Usage{}, false, false},
		{"only zeros without text", []string{`{"choices":[]}`, `{"usage":{"in":0,"out":0}}`, `[DONE]`}, tokens.Usage{}, true, true},
		{"only zeros, cut", []string{`{"choices":[]}`, `{"usage":{"in":0,"out":0}}`}, tokens.Usage{}, false, false},
		{"input and no output", []string{`{"usage":{"in":3}}`, `[DONE]`}, tokens.Usage{Input: 3}, true, true},
		{"input and unreported output", []string{text, `{"usage":{"in":3}}`, `[DONE]`}, tokens.Usage{Input: 3}, true, false},
		{"the total is larger", []string{`{"usage":{"in":3,"out":4,"total":20}}`}, tokens.Usage{Input: 3, Output: 17}, true, true},
		{"the total alone", []string{text, `{"usage":{"in":3,"out":0,"total":20}}`}, tokens.Usage{Input: 3, Output: 17}, true, true},
		{"the total is smaller", []string{`{"usage":{"in":3,"out":4,"total":5}}`}, tokens.Usage{Input: 3, Output: 4}, true, true},
		{"cached under two names", []string{`{"usage":{"in":9,"out":1,"cached":6,"details":{"cached":0}}}`}, tokens.Usage{Input: 9, Output: 1, CachedInput: 6}, true, true},
		{"more cached than read", []string{`{"usage":{"in":9,"out":1,"cached":20}}`}, tokens.Usage{Input: 29, Output: 1, CachedInput: 20}, true, true},
		{"more reasoning than output", []string{`{"usage":{"in":9,"out":1,"reasoning":5}}`}, tokens.Usage{Input: 9, Output: 1, Reasoning: 1}, true, true},
		{"no numbers", []string{text, `{"usage":{"in":"3","out":-4,"total":1.5}}`}, tokens.Usage{}, false, false},
		{"an absurd number", []string{`{"usage":{"in":1e300,"out":4}}`}, tokens.Usage{Output: 4}, false, true},
		{"a number that is no count by one", []string{text, `{"usage":{"in":3,"out":9007199254740992}}`}, tokens.Usage{Input: 3}, true, false},
		{"the largest count", []string{`{"usage":{"in":0,"out":9007199254740991}}`}, tokens.Usage{Output: tokens.MaxCount}, true, true},
		{"no object", []string{text, `{"usage":7}`, `{"usage":[{"in":3}]}`}, tokens.Usage{}, false, false},
		{"in another place", []string{`{"choices":[{"text":"{\"usage\":{\"in\":3}}","usage":{"in":4}}],"x":{"usage":{"in":5}}}`}, tokens.Usage{}, false, false},
		{"twice in one event", []string{`{"usage":{"in":1,"out":1},"usage":{"in":2,"out":2}}`}, tokens.Usage{Input: 2, Output: 2}, true, true},
	} {
		_, r := run(meter(sample, false), events(s.events...))
		if r.Usage != s.want || r.InputKnown != s.input || r.OutputKnown != s.output {
			t.Errorf("%s: got %+v (%v, %v), want %+v (%v, %v)", s.what, r.Usage, r.InputKnown, r.OutputKnown, s.want, s.input, s.output)
		}
	}
}

func TestAStreamIsCompleteWhenItsAPISaysSo(t *testing.T) {
	for _, s := range []struct {
		what   string
		events []string
		want   bool
	}{
		{"nothing", nil, false},
		{"text", []string{`{"choices":[{"text":"a"}]}`}, false},
		{"a mark", []string{`{"choices":[{"text":"a"}]}`, `[DONE]`}, true},
		{"a finish", []string{`{"choices":[{"text":"a","finish_reason":"stop"}]}`}, true},
		{"one of two finishes", []string{`{"choices":[{"index":0,"text":"a"},{"text":"b","index":1}]}`, `{"choices":[{"index":1,"finish_reason":"stop"}]}`}, false},
		{"two finishes", []string{`{"choices":[{"index":0,"text":"a"},{"text":"b","index":1}]}`, `{"choices":[{"index":1,"finish_reason":"x"},{"finish_reason":"y","index":0}]}`}, true},
		{"a finish of null", []string{`{"choices":[{"text":"a","finish_reason":null}]}`}, false},
		{"an error before the mark", []string{`{"choices":[{"text":"a"}]}`, `{"error":{"message":"no"}}`, `[DONE]`}, false},
		{"a mark within text", []string{`{"choices":[{"text":"[DONE]\n\ndata: [DONE]\n\n"}]}`}, false},
	} {
		_, r := run(meter(sample, false), events(s.events...))
		if r.Complete != s.want {
			t.Errorf("%s: got %v, want %v", s.what, r.Complete, s.want)
		}
	}
	_, r := run(meter(sample, false), events(`{"choices":[{"index":1,"finish_reason":"x"},{"finish_reason":"y","index":0}]}`))
	if r.Finish != "y" {
		t.Errorf("the first choice finished by %q, want y", r.Finish)
	}
}

func TestADocumentIsCompleteWhenItsJSONIs(t *testing.T) {
	for text, want := range map[string]bool{
		`{"usage":{"in":1,"out":2}}`:   true,
		"\n\n \ufeff {\"id\":\"x\"}\n": true,
		`{"usage":{"in":1,"out":2}`:    false,
		`{"error":{"message":"no"}}`:   false,
		`{"error":null}`:               true,
		`<html>502 Bad Gateway</html>`: false,
		``:                             false,
		`{"id":"x"} {"id":"y"}`:        false,
	} {
		_, r := run(meter(sample, true, "Content-Type", "application/json"), []byte(text))
		if r.Complete != want {
			t.Errorf("%q: complete is %v, want %v", text, r.Complete, want)
		}
	}
}

func TestACallWithoutOutputHasAKnownOutputOfNothing(t *testing.T) {
	for text, output := range map[string]tokens.Count{
		`{"id":"x"}`: 0, `{"usage":{"in":5,"total":5}}`: 0, `{"usage":{"in":5,"total":9}}`: 0,
		`{"usage":{"in":5,"total":9,"out":4}}`: 4, // what is reported is billed
	} {
		c := &dialect.Call{NoOutput: true}
		m := New(sample, c, dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {"application/json"}}}, dialect.MeterOptions{Count: bytesOf})
		if _, r := run(m, []byte(text)); !r.OutputKnown || r.Usage.Output != output || r.InputKnown != strings.Contains(text, "usage") {
			t.Errorf("%s: got %+v", text, r)
		}
	}
}

func TestWhatIsNoJSONIsNeverKnownToBeWhole(t *testing.T) {
	plain := &API{Document: sample.Document, Event: sample.Event, Plain: true}
	m := meter(plain, false, "Content-Type", "audio/mpeg")
	m.Feed([]byte("ID3"))
	m.End()
	if r := m.Report(); r.Complete || r.Unreadable || r.Stream {
		t.Errorf("it may have been cut: got %+v", r)
	}
}

func TestAnAnswerThatCannotBeReadIsCountedByItsSize(t *testing.T) {
	const usage = `{"usage":{"in":5,"out":9}}`
	for _, s := range []struct {
		what       string
		header     []string
		text       string
		unreadable bool
		counted    tokens.Count
		known      bool
	}{
		{"a document", []string{"Content-Type", "application/json"}, usage, false, 0, true},
		{"a page", []string{"Content-Type", "text/html"}, "<html>1234567890</html>", true, 5, false},
		{"events that say they are JSON", []string{"Content-Type", "application/json"}, "data: " + usage + "\n\n", true, 8, false},
		{"no coding, however it is written", []string{"Content-Type", "application/json", "Content-Encoding", "Identity"}, usage, false, 0, true},
		{"a coding that is not known", []string{"Content-Type", "text/event-stream", "Content-Encoding", "compress"}, "\x1f\x9d\x90 12345678", true, 3, false},
		{"no gzip, though it says so", []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, usage, false, 0, true},
		{"events that say they are gzip", []string{"Content-Type", "text/event-stream", "Content-Encoding", "gzip"}, "data: " + usage + "\n\n", false, 0, true},
		{"neither gzip nor text", []string{"Content-Type", "text/event-stream", "Content-Encoding", "gzip"}, "\xff\xfe\xfd\xfc0123456789ab", true, 4, false},
		{"gzip that breaks", []string{"Content-Type", "text/event-stream", "Content-Encoding", "gzip"}, gzipped("data: {}\n\n")[:18] + "noise noise noise noise", true, 10, false},
	} {
		for _, size := range []int{1, 5, 1 << 10} {
			m := meter(sample, false, s.header...)
			for piece := range slices.Chunk([]byte(s.text), size) {
				m.Feed(piece)
			}
			m.End()
			r := m.Report()
			if r.Unreadable != s.unreadable || r.Counted != s.counted || r.InputKnown != s.known {
				t.Errorf("%s, in pieces of %d: got %+v", s.what, size, r)
			}
		}
	}
}

func gzipped(text string) string {
	var b strings.Builder
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text)) // a Builder takes all
	_ = z.Close()                // as before
	return b.String()
}

func TestADocumentMayBeCompleteBeforeItsEndIsTold(t *testing.T) {
	for text, want := range map[string]bool{
		`{"id":"x","usage":{"in":1,"out":2}}`: true,
		`{"id":"x","usage":{"in":1,"out":2}`:  false,
		`{"error":{"message":"no"}}`:          false,
		`{"error":"no"}`:                      false,
		`{"error":null}`:                      true,
		`{"id":"x"}trailing`:                  false,
	} {
		m := meter(sample, false, "Content-Type", "application/json")
		m.Feed([]byte(text))
		if got := m.Report().Complete; got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
		m.End()
	}
}

func TestAnErrorIsReportedAndItsTextIsNoOutput(t *testing.T) {
	for _, s := range []struct {
		what, answer string
		status       int
		want         *dialect.Failure
	}{
		{"an event", string(events(`{"error":{"message":"no","code":503}}`)), 200, &dialect.Failure{Message: "no", Code: "503", Status: 503}},
		{"a string", string(events(`{"error":"no"}`)), 200, &dialect.Failure{Message: "no"}},
		{"an event by its name", "event: error\ndata: {}\n\n", 200, &dialect.Failure{}},
		{"null", string(events(`{"error":null}`)), 200, nil},
		{"false", string(events(`{"error":false}`)), 200, nil},
		{"the first of two, with what the second adds", string(events(`{"error":{"message":"a"}}`, `{"error":{"message":"b","code":"c"}}`)), 200, &dialect.Failure{Message: "a", Code: "c"}},
		{"by its status", `{"choices":[{"text":"hi"}]}`, 500, &dialect.Failure{}},
		{"a page", `<html>no</html>`, 502, &dialect.Failure{}},
		{"nothing", ``, 401, &dialect.Failure{}},
		{"a list", `[{"error":{"code":429,"message":"no","status":"X"}}]`, 429, &dialect.Failure{Type: "X", Code: "429", Message: "no", Status: 429}},
	} {
		h := dialect.Header{"Content-Type": {"text/event-stream"}}
		m := New(sample, &dialect.Call{Stream: true}, dialect.Answer{Status: s.status, Header: h}, dialect.MeterOptions{Count: bytesOf})
		_, r := run(m, []byte(s.answer))
		if (r.Failure == nil) != (s.want == nil) || r.Failure != nil && *r.Failure != *s.want {
			t.Errorf("%s: got %+v, want %+v", s.what, r.Failure, s.want)
		}
		if r.Counted != 0 || r.Content || r.FailedFirst != (s.want != nil && s.answer != "") {
			t.Errorf("%s: %d bytes of output were counted, and it failed first: %v", s.what, r.Counted, r.FailedFirst)
		}
	}
}

func TestAnErrorComesBeforeAnyOutputWhateverFollowsIt(t *testing.T) {
	const said, failed = `{"choices":[{"text":"hi"}]}`, `{"error":{"message":"no"}}`
	for _, s := range []struct {
		events []string
		want   bool
	}{
		{[]string{failed}, true}, {[]string{failed, "[DONE]"}, true}, {[]string{failed, said}, true}, {[]string{said, failed}, false}, {[]string{"{}", failed, failed}, true}, {[]string{said}, false},
	} {
		for _, size := range []int{1, 1 << 10} {
			m := meter(sample, false)
			for piece := range slices.Chunk(append([]byte(": comment\n\n"), events(s.events...)...), size) {
				m.Feed(piece)
			}
			if r := m.Report(); r.FailedFirst != s.want {
				t.Errorf("%v in pieces of %d: got %v, want %v", s.events, size, r.FailedFirst, s.want)
			}
		}
	}
}

func TestReasoningUnderTwoNamesCountsOnce(t *testing.T) {
	for _, s := range []struct {
		events []string
		want   tokens.Count
	}{
		{[]string{`{"choices":[{"thought":"abc","thought2":"abc"}]}`}, 3},
		{[]string{`{"choices":[{"thought":"abc"}]}`}, 3},
		{[]string{`{"choices":[{"thought2":"abc"}]}`}, 3},
		{[]string{`{"choices":[{"thought2":"abc","thought":"abc"}]}`}, 3},
		{[]string{`{"choices":[{"thought":"ab","thought2":"ab"}]}`, `{"choices":[{"thought":"c","thought2":"c"}]}`}, 3},
	} {
		if _, r := run(meter(sample, false), events(s.events...)); r.Counted != s.want {
			t.Errorf("%v: got %d, want %d", s.events, r.Counted, s.want)
		}
	}
}

func TestAReportMayBeAskedForAtAnyTime(t *testing.T) {
	m := meter(sample, false)
	m.Feed(events(`{"choices":[{"text":"abc"}]}`))
	m.Feed([]byte(`data: {"id":"i","choices":[{"text":"de`))
	if r := m.Report(); r.Counted != 5 || !r.Content || r.Complete || r.Events != 1 || r.ID != "i" {
		t.Errorf("got %+v", r)
	}
	m.Feed([]byte("f\",\"finish_reason\":\"stop\"}]}\n\n"))
	if r := m.Report(); r.Counted != 6 || !r.Complete || r.Events != 2 {
		t.Errorf("got %+v", r)
	}
	m.End()
	if m.End() != nil || m.Feed([]byte("x")) == nil || m.Report().Events != 2 {
		t.Error("something is left after the end")
	}
}

func TestAnEventMayFollowOnlyBetweenEvents(t *testing.T) {
	const chunk = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n"
	for _, s := range []struct {
		what   string
		hide   bool
		fed    string
		header []string
		want   bool
	}{
		{"nothing came", false, "", nil, true},
		{"behind an event", false, chunk, nil, true},
		{"within an event", false, chunk + "data: {", nil, false},
		{"behind an event of CRs", false, "data: {}\r\r", nil, true},
		{"within an event that is held back", true, chunk + "data: {", nil, true},
		{"within an event that is too large", true, "data: {\"x\":\"" + strings.Repeat("x", maxHeld), nil, false},
		{"in a document", false, chunk, []string{"Content-Type", "application/json"}, false},
		{"in lines", false, "{}\n", []string{"Content-Type", "application/x-ndjson"}, true},
		{"in a compressed stream", false, "", []string{"Content-Encoding", "gzip"}, false},
	} {
		m := meter(sample, s.hide, s.header...)
		m.Feed([]byte(s.fed))
		if got := m.Report().Between; got != s.want {
			t.Errorf("%s: got %v, want %v", s.what, got, s.want)
		}
		m.End()
	}
}

func TestWhatHidingLeaves(t *testing.T) {
	const text = `{"choices":[{"text":"a"}]}`
	for _, s := range []struct{ what, in, want string }{
		{"nothing to hide", `{"id":1,"choices":[]}`, `{"id":1,"choices":[]}`},
		{"null", `{"id":1,"choices":[{}],"usage":null}`, `{"id":1,"choices":[{}]}`},
		{"null first", `{"usage": null , "id":1,"choices":[{}]}`, `{"id":1,"choices":[{}]}`},
		{"null between", `{"id":1 , "usage":null , "choices":[{}]}`, `{"id":1 , "choices":[{}]}`},
		{"null alone", `{ "usage":null }`, `{  }`},
		{"a report beside choices", `{"choices":[{"text":"b"}],"usage":{"in":1,"x":"}\"]"},"z":1}`, `{"choices":[{"text":"b"}],"z":1}`},
		{"two reports", `{"usage":{"in":1},"usage":null,"choices":[1],"usage":2}`, `{"choices":[1]}`},
		{"a report beside an error", `{"error":{"message":"x"},"usage":{"in":1}}`, `{"error":{"message":"x"}}`},
		{"an escaped key", `{"choices":[1],"us\u0061ge":{"in":1}}`, `{"choices":[1]}`},
		{"usage deeper down", `{"choices":[{"usage":{"in":1}}],"x":{"usage":1}}`, `{"choices":[{"usage":{"in":1}}],"x":{"usage":1}}`},
		{"usage in text", `{"choices":[{"text":"\"usage\":{}"}],"usage":null}`, `{"choices":[{"text":"\"usage\":{}"}]}`},
		{"a mark", `[DONE]`, `[DONE]`},
		{"no JSON", `{"usage":{"in":1}`, `{"usage":{"in":1}`},
	} {
		got, _ := run(meter(sample, true), events(text, s.in, text))
		if want := string(events(text, s.want, text)); got != want {
			t.Errorf("%s: got %q, want %q", s.what, got, want)
		}
	}
	for _, in := range []string{`{"choices":[],"usage":{"in":1}}`, `{"usage":{"in":1,"out":2}}`, `{"choices":null,"usage":{}}`, `{"choices":[ ],"usage":{"in":1},"filter":[1]}`} {
		got, _ := run(meter(sample, true), events(text, in, `[DONE]`))
		if want := string(events(text, `[DONE]`)); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func TestHidingKeepsTheFramingOfEveryOtherEvent(t *testing.T) {
	const in = "\ufeff: hello\r\n\r\nevent: x\r\nid: 1\r\ndata: {\"choices\":[1],\r\ndata: \"usage\":\r\ndata: null}\r\n\r\n" +
		": gone\r\ndata:{\"usage\":{\"in\":1}}\r\n\r\n:\r\rdata: {\"usage\":{\"in\":1}}\r\rdata:[DONE]\n\ndata: {\"usage\":{\"in\":2}}"
	const want = "\ufeff: hello\r\n\r\nevent: x\r\nid: 1\r\ndata: {\"choices\":[1]\r\ndata: \r\ndata: }\r\n\r\n:\r\rdata:[DONE]\n\n"
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		m := meter(sample, true)
		var got []byte
		for rest := in; rest != ""; {
			n := 1 + random.IntN(min(len(rest), 1+int(seed)*4))
			got = append(got, m.Feed([]byte(rest[:n]))...)
			rest = rest[n:]
		}
		if got = append(got, m.End()...); string(got) != want {
			t.Fatalf("seed %d: got  %q\nwant %q", seed, got, want)
		}
		if r := m.Report(); r.Usage.Input != 2 {
			t.Errorf("seed %d: input is %d", seed, r.Usage.Input)
		}
	}
}

func TestALargeEventPassesWithoutBeingHeld(t *testing.T) {
	for _, hide := range []bool{false, true} {
		m := meter(sample, hide)
		piece := bytes.Repeat([]byte("x"), 32<<10)
		fed, got, behind := 0, 0, 0
		feed := func(p []byte) {
			fed += len(p)
			got += len(m.Feed(p))
			behind = max(behind, fed-got)
		}
		feed([]byte(`data: {"choices":[{"text":"`))
		for range 128 {
			feed(piece)
		}
		const usage = `{"in":1,"out":2}`
		feed([]byte("\"}],\"usage\":" + usage + "}\n\n"))
		got += len(m.End())
		if hide {
			got += len(usage) - len("null")
		}
		if got != fed || behind > maxHeld || !hide && behind > 0 {
			t.Errorf("hide %v: %d of %d bytes came, %d were held", hide, got, fed, behind)
		}
		if r := m.Report(); r.Usage.Output != 2 || r.Counted != 4<<20 {
			t.Errorf("hide %v: got %+v", hide, r)
		}
	}
}

func TestACompressedStreamIsReadAndPassedAsItCame(t *testing.T) {
	var sent bytes.Buffer
	w := gzip.NewWriter(&sent)
	if _, err := w.Write(events(`{"choices":[{"text":"a","finish_reason":"stop"}]}`, `{"choices":[],"usage":{"in":5,"out":6}}`, `[DONE]`)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out, r := run(meter(sample, true, "Content-Encoding", "gzip"), sent.Bytes())
	if out != sent.String() || r.Usage != (tokens.Usage{Input: 5, Output: 6}) || !r.Complete || r.Events != 3 {
		t.Errorf("got %+v", r)
	}
	out, r = run(meter(sample, false, "Content-Encoding", "unheard-of"), sent.Bytes())
	if out != sent.String() || r.Complete || r.InputKnown {
		t.Errorf("an unknown encoding: got %+v", r)
	}
}

func TestTextIsCountedAsOneHoweverItIsCut(t *testing.T) {
	whole := strings.Repeat("The quick brown fox jumps over the lazy dog, twice. ", 200)
	words := func(text []byte) tokens.Count { return tokens.Count(len(strings.Fields(string(text)))) }
	want := words([]byte(whole))
	for _, size := range []int{1, 3, 1000, 1 << 20} {
		c := text{count: words}
		for rest := whole; rest != ""; {
			n := min(size, len(rest))
			c.add(Text, []byte(rest[:n]))
			rest = rest[n:]
			if len(c.held) > mustCut {
				t.Fatalf("%d bytes are held", len(c.held))
			}
		}
		if got := c.sum(); got != want {
			t.Errorf("in pieces of %d: got %d, want %d", size, got, want)
		}
	}
	c := text{count: words}
	c.add(Text, []byte("one"))
	c.add(ToolText, []byte("two"))
	if c.sum() != 2 {
		t.Errorf("texts of two fields are %d words, want 2", c.sum())
	}
	for in, want := range map[string]int{"a b": 1, "ab cd ef": 5, "a  b": 0, " a": 0, "a ": 0, "ab, cd": 0, "a b.": 1, "a": 0, "": 0, "\u4e16 a": 3} {
		if got := wordEnd([]byte(in)); got != want {
			t.Errorf("%q is cut at %d, want %d", in, got, want)
		}
	}
	for in, want := range map[string]int{"ab": 2, "a\xe4": 1, "a\xe4\xb8": 1, "a\u4e16": 4, "\xf0\x9f\x98": 0, "\U0001F600": 4, "\x80\x80\x80\x80\x80": 5, "": 0} {
		if got := runeEnd([]byte(in)); got != want {
			t.Errorf("%q ends at %d, want %d", in, got, want)
		}
	}
	c = text{count: bytesOf}
	c.add(Text, bytes.Repeat([]byte("x"), mustCut-1))
	if c.total != 0 {
		t.Errorf("%d bytes of a word that goes on were counted", c.total)
	}
	c.add(Text, []byte("xx"))
	if c.total != mustCut || len(c.held) != 1 {
		t.Errorf("%d bytes of a long word were counted, and %d are held", c.total, len(c.held))
	}
	c = text{count: bytesOf}
	c.add(Text, bytes.Repeat([]byte("ab "), cutAt/3+1))
	if c.total == 0 || c.total > cutAt {
		t.Errorf("%d bytes were counted of a text with words", c.total)
	}
	c = text{count: bytesOf}
	c.add(Text, bytes.Repeat([]byte("\u4e16"), 2000))
	if c.sum() != 6000 {
		t.Errorf("a text without spaces has %d bytes, want 6000", c.sum())
	}
}

// TestAnIdleStreamTakesLittleMemory holds many streams open in mid-answer.
func TestAnIdleStreamTakesLittleMemory(t *testing.T) {
	const streams = 2000
	for _, hide := range []bool{false, true} {
		chunk := events(`{"id":"chatcmpl-1","model":"gpt-4o","choices":[{"index":0,"text":" some words of an answer"}],"usage":null}`)
		open := make([]*Meter, streams)
		before := heap()
		for i := range open {
			open[i] = meter(sample, hide)
			for range 20 {
				open[i].Feed(chunk)
			}
		}
		each := (heap() - before) / streams
		t.Logf("hide %v: %d bytes a stream", hide, each)
		if each > 4<<10 {
			t.Errorf("hide %v: an idle stream takes %d bytes", hide, each)
		}
		runtime.KeepAlive(open)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkStream(b *testing.B) {
	chunk := events(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000001,"model":"gpt-4o","choices":[{"index":0,"text":" hello","finish_reason":null}],"usage":null}`)
	for _, hide := range []bool{false, true} {
		b.Run(fmt.Sprintf("hide=%v", hide), func(b *testing.B) {
			m := meter(sample, hide)
			b.SetBytes(int64(len(chunk)))
			b.ReportAllocs()
			for b.Loop() {
				m.Feed(chunk)
			}
		})
	}
}
