package watch

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// writeEvent frames a document in one of the ways that the standard allows. A
// document is broken over lines between its tokens.
func writeEvent(r *rand.Rand, document []string) string {
	end := []string{"\n", "\r\n", "\r"}[r.IntN(3)]
	colon := []string{"data:", "data: "}[r.IntN(2)]
	var b strings.Builder
	if r.IntN(3) == 0 {
		b.WriteString([]string{": comment", "id: 7", "event: chunk", "retry: 5"}[r.IntN(4)] + end)
	}
	b.WriteString(colon)
	for i, token := range document {
		if i > 0 && r.IntN(12) == 0 {
			b.WriteString(end + colon)
		}
		b.WriteString(token)
	}
	return b.String() + end + end
}

// chunk makes a document's tokens, and says what is left of it: nil if nothing.
func chunk(r *rand.Rand) (tokens []string, left map[string]any) {
	members := [][]string{{`"id"`, ":", `"c"`}}
	choices := r.IntN(3) > 0
	if choices {
		members = append(members, []string{`"choices"`, ":", "[", "{", `"text"`, ":", `"a \"usage\":{} ` + strings.Repeat("x", r.IntN(9)) + `"`, "}", "]"})
	} else if r.IntN(2) == 0 {
		members = append(members, []string{`"choices"`, ":", "[", "]"})
	}
	reports := false
	for range r.IntN(3) {
		switch r.IntN(3) {
		case 0:
			members = append(members, []string{`"usage"`, ":", "null"})
		case 1:
			members = append(members, []string{`"usage"`, ":", "{", `"in"`, ":", "3", ",", `"details"`, ":", "{", `"cached"`, ":", "1", "}", "}"})
			reports = true
		case 2:
			members = append(members, []string{fmt.Sprintf(`"x%d"`, r.IntN(100)), ":", "[", "1", ",", "{", `"usage"`, ":", "2", "}", "]"})
		}
	}
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	tokens = append(tokens, "{")
	for i, m := range members {
		if i > 0 {
			tokens = append(tokens, ",")
		}
		tokens = append(tokens, m...)
	}
	tokens = append(tokens, "}")
	if reports && !choices {
		return tokens, nil
	}
	if err := json.Unmarshal([]byte(strings.Join(tokens, "")), &left); err != nil {
		panic(err)
	}
	delete(left, "usage")
	return tokens, left
}

// decode reads the events that are left, the plain way.
func decode(t *testing.T, answer string) []map[string]any {
	t.Helper()
	answer = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(answer)
	var all []map[string]any
	for block := range strings.SplitSeq(answer, "\n\n") {
		var data []string
		for line := range strings.SplitSeq(block, "\n") {
			if value, ok := strings.CutPrefix(line, "data:"); ok {
				data = append(data, value)
			}
		}
		if data == nil {
			continue
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(strings.Join(data, "\n")), &v); err != nil {
			t.Fatalf("%q is no JSON any more: %v", data, err)
		}
		all = append(all, v)
	}
	return all
}

func TestHidingLeavesWhatAPlainEditorWouldLeave(t *testing.T) {
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 11))
		var answer strings.Builder
		var want []map[string]any
		kept := 0 // bytes of events without usage, which must stay as they are
		for range 1 + r.IntN(6) {
			tokens, left := chunk(r)
			text := writeEvent(r, tokens)
			answer.WriteString(text)
			if left != nil {
				want = append(want, left)
			}
			if !slices.Contains(tokens, `"usage"`) {
				kept += len(text)
			}
		}
		var first string
		for _, size := range []int{1 << 20, 1, 3, 17} {
			m := meter(sample, true)
			var got []byte
			for piece := range slices.Chunk([]byte(answer.String()), size) {
				got = append(got, m.Feed(piece)...)
			}
			got = append(got, m.End()...)
			if first == "" {
				first = string(got)
			}
			if string(got) != first {
				t.Fatalf("seed %d in pieces of %d: got %q, want %q", seed, size, got, first)
			}
		}
		if got := decode(t, first); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %q\ngot  %v\nwant %v", seed, answer.String(), got, want)
		}
		if len(first) < kept || len(first) > answer.Len() {
			t.Fatalf("seed %d: %d bytes are left of %d", seed, len(first), answer.Len())
		}
	}
}

func TestAnEventThatIsTooLargeDoesNotSpoilTheNext(t *testing.T) {
	large := `{"choices":[{"text":"` + strings.Repeat("x", maxHeld+1) + `"}]}`
	const last = `{"choices":[{"text":"a"}],"usage":{"in":1}}`
	in := string(events(large, last, `{"usage":{"in":1,"out":2}}`, large, "[DONE]"))
	want := string(events(large, `{"choices":[{"text":"a"}]}`, large, "[DONE]"))
	m := meter(sample, true)
	var got []byte
	for piece := range slices.Chunk([]byte(in), 10_000) {
		got = append(got, m.Feed(piece)...)
	}
	got = append(got, m.End()...)
	if string(got) != want {
		t.Errorf("%d bytes came, want %d", len(got), len(want))
	}
	if m.hider != nil && cap(m.hider.out) > maxHeld {
		t.Errorf("%d bytes are kept", cap(m.hider.out))
	}
}

func TestUsageOfAnEventThatIsTooLargeIsBlanked(t *testing.T) {
	long := strings.Repeat(`a\"usage\":{"in":7} \\`, maxHeld/16)
	choices := `"choices":[{"text":"` + long + `","usage":{"in":3}}]`
	const usage = `{"in":1,"out":2,"details":{"a":[{}],"b":"}\"usage\":{"}}`
	for _, s := range []struct{ what, in, want string }{
		{"at its end", `{"id":"usage",` + choices + `,"usage":` + usage + `}`, `{"id":"usage",` + choices + `,"usage":null}`},
		{"in its middle", `{` + choices + ` , "usage" : ` + usage + ` , "x":1}`, `{` + choices + ` , "usage" : null , "x":1}`},
		{"at its start", `{"usage":` + usage + `,` + choices + `}`, `{"usage":null,` + choices + `}`},
		{"twice", `{"usage":` + usage + `,` + choices + `,"usage":` + usage + `}`, `{"usage":null,` + choices + `,"usage":null}`},
		{"none", `{` + choices + `,"usage":null}`, `{` + choices + `,"usage":null}`},
		{"of another name", `{` + choices + `,"usages":{"in":1},"usag":{},"\u0000usage":{},"a":"usage","b":{"usage":{}},"c":["usage",{}]}`,
			`{` + choices + `,"usages":{"in":1},"usag":{},"\u0000usage":{},"a":"usage","b":{"usage":{}},"c":["usage",{}]}`},
		{"larger than all", `{` + choices + `,"usage":{"x":"` + long + `"}}`, `{` + choices + `,"usage":null}`},
	} {
		for _, size := range []int{1 << 10, 10_007, 1 << 16} {
			m, got := meter(sample, true), []byte(nil)
			for piece := range slices.Chunk(events(s.in), size) {
				got = append(got, m.Feed(piece)...)
				if held := cap(m.hider.held); held > 4*maxHeld {
					t.Fatalf("%s: %d bytes are held", s.what, held)
				}
			}
			got = append(got, m.End()...)
			if string(got) != string(events(s.want)) {
				t.Errorf("%s, in pieces of %d: %d bytes came, want %d\n%q", s.what, size, len(got), len(events(s.want)), got[max(0, len(got)-200):])
			}
		}
	}
}

func TestUsageIsBlankedOverSeveralLines(t *testing.T) {
	first := `{"choices":[{"text":"` + strings.Repeat("x", maxHeld+8192) + `"}],`
	in := "data: " + first + "\ndata: \"usage\":\ndata: {\"in\":1,\ndata: \"out\":2}\ndata: }\n\n"
	want := "data: " + first + "\ndata: \"usage\":\ndata: null\ndata: \ndata: }\n\n"
	m, got := meter(sample, true), []byte(nil)
	for piece := range slices.Chunk([]byte(in), 4096) {
		got = append(got, m.Feed(piece)...)
	}
	if got = append(got, m.End()...); string(got) != want {
		t.Errorf("got %q, want %q", got[max(0, len(got)-100):], want[len(want)-100:])
	}
}

func TestACommentThatNeverEndsIsNotHeld(t *testing.T) {
	m := meter(sample, true)
	fed, got := 0, 0
	for range 200 {
		piece := []byte(": " + strings.Repeat("c", 9998))
		fed += len(piece)
		got += len(m.Feed(piece))
		if fed-got > maxHeld {
			t.Fatalf("%d bytes are held", fed-got)
		}
	}
	out := string(m.Feed([]byte("\n\n"))) + string(m.Feed(events(`{"choices":[1],"usage":null}`)))
	if out != "\n\n"+string(events(`{"choices":[1]}`)) {
		t.Errorf("behind it: got %q", out)
	}
}
