package dialecttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

// Bytes is a dialect.Counter by which a text's count is its length.
func Bytes(text []byte) tokens.Count { return tokens.Count(len(text)) }

func testAnswers(t *testing.T, s Suite) {
	seen := map[string]bool{}
	for _, a := range Answers(t, Root) {
		source, ok := s.Answers[a.Dialect]
		if !ok {
			continue
		}
		seen[a.Dialect] = true
		t.Run(a.File, func(t *testing.T) { testAnswer(t, s, a, source) })
	}
	for name := range s.Answers {
		if !seen[name] {
			t.Errorf("no recording is of %s", name)
		}
	}
}

func testAnswer(t *testing.T, s Suite, a Answer, source Source) {
	c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: source.Operation, Pattern: source.Pattern}}, Dialect: s.Dialect.Name(), Stream: a.Stream, Choices: 1}
	c.NoOutput = source.Operation == dialect.Embeddings || source.Operation == dialect.CountTokens
	options := dialect.MeterOptions{Count: Bytes, Flavor: source.Flavor}
	meter := func() dialect.Meter { return s.Dialect.Meter(c, a.head(), options) }

	var hidden []byte
	for i, pieces := range cuts(a.Body) {
		options.HideUsage = false
		out, report := feed(meter(), pieces)
		if !bytes.Equal(out, a.Body) {
			t.Errorf("cut %d: the answer was changed: %s", i, difference(out, a.Body))
		}
		checkReport(t, fmt.Sprintf("cut %d", i), c, a, report)

		options.HideUsage = true
		out, again := feed(meter(), pieces)
		again.Between = report.Between // what is held back was not passed on
		if !reflect.DeepEqual(again, report) {
			t.Errorf("cut %d: hiding usage changes what is read:\ngot  %+v\nwant %+v", i, again, report)
		}
		if i == 0 {
			hidden = out
			checkHidden(t, a, hidden, source)
		}
		if !bytes.Equal(out, hidden) {
			t.Errorf("cut %d: usage is hidden otherwise: %s", i, difference(out, hidden))
		}
	}
}

// cuts returns a text whole, byte by byte, and cut at random.
func cuts(text []byte) [][][]byte {
	all := [][][]byte{{text}}
	if len(text) <= 64<<10 {
		var bytewise [][]byte
		for i := range text {
			bytewise = append(bytewise, text[i:i+1])
		}
		all = append(all, bytewise)
	}
	for _, most := range []int{7, 100, 5000} {
		random := rand.New(rand.NewPCG(uint64(most), 3))
		var pieces [][]byte
		for rest := text; len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(most))
			pieces, rest = append(pieces, rest[:n:n]), rest[n:]
		}
		all = append(all, pieces)
	}
	return all
}

// feed gives pieces to a meter as a careless caller would: the buffer is
// overwritten after each call.
func feed(m dialect.Meter, pieces [][]byte) ([]byte, dialect.Report) {
	var out, buf []byte
	for _, piece := range pieces {
		buf = append(buf[:0], piece...)
		out = append(out, m.Feed(buf)...)
		for i := range buf {
			buf[i] = '#'
		}
	}
	out = append(out, m.End()...)
	return out, m.Report()
}

func difference(got, want []byte) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	return fmt.Sprintf("at %d of %d: got %.60q, want %.60q", i, len(want), got[i:], want[i:])
}

func checkReport(t *testing.T, what string, c *dialect.Call, a Answer, r dialect.Report) {
	t.Helper()
	known := func(side string, is bool, got tokens.Count, want *int64) {
		t.Helper()
		if is != (want != nil) {
			t.Errorf("%s: %s known is %v (%d), want %v", what, side, is, got, want != nil)
		}
		if want != nil && got != tokens.Count(*want) {
			t.Errorf("%s: %s is %d, want %d", what, side, got, *want)
		}
	}
	known("input", r.InputKnown, r.Usage.Input, a.Input)
	if !c.NoOutput {
		known("output", r.OutputKnown, r.Usage.Output, a.Output)
	}
	part := func(side string, got tokens.Count, want *int64) {
		t.Helper()
		if want != nil && got != tokens.Count(*want) {
			t.Errorf("%s: %s is %d, want %d", what, side, got, *want)
		}
	}
	part("cached", r.Usage.CachedInput, a.Cached)
	part("written", r.Usage.CacheWrite, a.Written)
	part("reasoning", r.Usage.Reasoning, a.Reasoning)
	if want := deref(a.Finish); r.Finish != want {
		t.Errorf("%s: finish is %q, want %q", what, r.Finish, want)
	}
	if want := deref(a.Model); r.Model != want {
		t.Errorf("%s: model is %q, want %q", what, r.Model, want)
	}
	if r.Complete != a.Complete {
		t.Errorf("%s: complete is %v, want %v", what, r.Complete, a.Complete)
	}
	if text := a.Extra.ContentText; text != nil && r.Counted != tokens.Count(len(*text)) {
		t.Errorf("%s: %d bytes of text were counted, want %d", what, r.Counted, len(*text))
	}
	checkFailure(t, what, a, r.Failure)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func checkFailure(t *testing.T, what string, a Answer, got *dialect.Failure) {
	t.Helper()
	if (got != nil) != (a.Error != nil) {
		t.Errorf("%s: failure is %+v, want %+v", what, got, a.Error)
		return
	}
	if got == nil {
		return
	}
	text := func(v any) string {
		if v == nil {
			return ""
		}
		return fmt.Sprint(v)
	}
	if got.Message != a.Error.Message || got.Type != text(a.Error.Type) || got.Code != text(a.Error.Code) {
		t.Errorf("%s: failure is %+v, want %+v", what, *got, *a.Error)
	}
}

// checkHidden tests an answer whose usage was hidden against a plain way of
// hiding it: by decoding each event.
func checkHidden(t *testing.T, a Answer, got []byte, source Source) {
	t.Helper()
	hides := (source.Operation == dialect.Chat || source.Operation == dialect.Completion) && a.HTTP.Status < 400 && source.Flavor != "none" &&
		strings.HasPrefix(a.HTTP.ContentType, "text/event-stream") && a.HTTP.Headers["content-encoding"] == "" && hasChoices(a.Body)
	if !hides {
		if !bytes.Equal(got, a.Body) {
			t.Errorf("usage was hidden where it cannot be: %s", difference(got, a.Body))
		}
		return
	}
	want := Visible(a.Body)
	if got := Events(got); !reflect.DeepEqual(got, want) {
		t.Errorf("hidden:\ngot  %v\nwant %v", got, want)
	}
}

// Visible decodes the events that are left of a stream whose usage is hidden.
func Visible(body []byte) []any {
	var want []any
	for _, e := range Events(body) {
		chunk, ok := e.(map[string]any)
		if !ok {
			want = append(want, e)
			continue
		}
		choices, _ := chunk["choices"].([]any)
		if chunk["usage"] != nil && len(choices) == 0 && chunk["error"] == nil {
			continue
		}
		delete(chunk, "usage")
		if groq, ok := chunk["x_groq"].(map[string]any); ok {
			delete(groq, "usage")
		}
		want = append(want, chunk)
	}
	return want
}

func hasChoices(body []byte) bool { return bytes.Contains(body, []byte(`"choices"`)) }

// Events decodes the events of a text/event-stream; what is no JSON is a string.
func Events(body []byte) []any {
	text := strings.TrimPrefix(string(body), "\ufeff")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	var all []any
	for block := range strings.SplitSeq(text, "\n\n") {
		var data []string
		for line := range strings.SplitSeq(block, "\n") {
			if value, ok := strings.CutPrefix(line, "data:"); ok {
				data = append(data, strings.TrimPrefix(value, " "))
			}
		}
		if len(data) == 0 {
			continue
		}
		joined := strings.Join(data, "\n")
		var v any
		if json.Unmarshal([]byte(joined), &v) != nil {
			v = joined
		}
		all = append(all, v)
	}
	return all
}
