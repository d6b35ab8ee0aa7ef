package stream

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// value makes a JSON value with what could be taken for framing.
func value(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case n < 2 && depth > 0:
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = value(r, depth-1)
		}
		return list
	case n < 5 && depth > 0:
		object := map[string]any{}
		for range r.IntN(4) {
			object[[]string{"a", "]", "}", ",", `"`, `\`, "data: ", "\n"}[r.IntN(8)]] = value(r, depth-1)
		}
		return object
	case n == 5:
		return r.IntN(1000)
	case n == 6:
		return nil
	}
	return []string{"", "a", `]}`, `",[`, `\\"`, "\n\ndata: x\n\n", "[DONE]", "世界", strings.Repeat("x", r.IntN(50))}[r.IntN(9)]
}

// write writes a value in one of the ways that JSON allows.
func write(t *testing.T, r *rand.Rand, v any) string {
	t.Helper()
	var b []byte
	var err error
	if r.IntN(2) == 0 {
		b, err = json.MarshalIndent(v, "", []string{" ", "\t", ""}[r.IntN(3)])
	} else {
		b, err = json.Marshal(v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// compact is a document without its white space.
func compact(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return b.String()
}

func TestTheElementsOfAnyArrayAreItsEvents(t *testing.T) {
	blanks := []string{"", " ", "\n", "\r\n", "\t \n"}
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 5))
		blank := func() string { return blanks[r.IntN(len(blanks))] }
		var want []string
		text := blank() + "["
		for i := range r.IntN(5) {
			if i > 0 {
				text += blank() + "," + blank()
			}
			element := write(t, r, value(r, 4))
			text += blank() + element
			want = append(want, compact(t, element))
		}
		text += blank() + "]" + blank()
		for _, pieces := range append(cuts(text, seed), []string{text}) {
			got := read(t, Array, pieces...)
			if len(got) != len(want) {
				t.Fatalf("seed %d: %q has %d elements, want %d", seed, text, len(got), len(want))
			}
			for i, e := range got {
				if compact(t, e.data) != want[i] {
					t.Fatalf("seed %d: element %d is %q, want %q", seed, i, e.data, want[i])
				}
			}
		}
	}
}

func TestTheLinesOfAnyStreamAreItsEvents(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 6))
		var want []string
		text := ""
		for range r.IntN(6) {
			b, err := json.Marshal(value(r, 4))
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, string(b))
			text += []string{"", " ", "\r\n", "\n \n"}[r.IntN(4)] + string(b) + []string{"\n", "\r\n", " \n"}[r.IntN(3)]
		}
		if r.IntN(2) == 0 {
			text = strings.TrimRight(text, "\r\n ")
		}
		for _, pieces := range append(cuts(text, seed), []string{text}) {
			got := read(t, Lines, pieces...)
			if len(got) != len(want) {
				t.Fatalf("seed %d: %q has %d lines, want %d", seed, text, len(got), len(want))
			}
			for i, e := range got {
				if strings.TrimRight(e.data, " \r") != want[i] {
					t.Fatalf("seed %d: line %d is %q, want %q", seed, i, e.data, want[i])
				}
			}
		}
	}
}

func TestFramesOfAnySizeAreRead(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		var want []event
		var text []byte
		for range r.IntN(5) {
			e := event{strings.Repeat("n", r.IntN(maxName)), strings.Repeat("p", r.IntN(200))}
			headers := [][2]string{{":message-type", "event"}}
			if e.name != "" {
				headers = append(headers, [2]string{":event-type", e.name})
			}
			r.Shuffle(len(headers), func(i, j int) { headers[i], headers[j] = headers[j], headers[i] })
			text = AppendFrame(text, headers, []byte(e.data))
			want = append(want, e)
		}
		for _, pieces := range append(cuts(string(text), seed), []string{string(text)}) {
			got := read(t, Frames, pieces...)
			if len(got) != len(want) {
				t.Fatalf("seed %d: %d frames, want %d", seed, len(got), len(want))
			}
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("seed %d: frame %d is %v, want %v", seed, i, got[i], want[i])
				}
			}
		}
	}
}
