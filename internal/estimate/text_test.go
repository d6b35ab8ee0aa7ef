package estimate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"llmgw/internal/jsonscan"
)

// randomJSON writes a random value, with white space where it may stand and
// strings that try to look like something else.
func randomJSON(r *rand.Rand, out *bytes.Buffer, depth int) {
	blank := func() { out.WriteString([]string{"", "", "", " ", "\n\t", " \r\n "}[r.IntN(6)]) }
	texts := []string{`""`, `"a"`, `"]"`, `"\""`, `"\\"`, `"\\\""`, `"[{,"`, `"\u0022"`, `"}\\\\"`, `"a \"b\" c"`, `"é😀"`, `"\ud83d\ude00"`, `"` + strings.Repeat(`\\`, r.IntN(5)) + `"`}
	kind := r.IntN(8)
	if depth == 0 {
		kind = r.IntN(6)
	}
	switch kind {
	case 0, 1, 2:
		out.WriteString(texts[r.IntN(len(texts))])
	case 3:
		fmt.Fprint(out, r.IntN(1000)-500)
	case 4:
		out.WriteString([]string{"1.5e10", "-0", "0.25"}[r.IntN(3)])
	case 5:
		out.WriteString([]string{"true", "false", "null"}[r.IntN(3)])
	case 6:
		out.WriteByte('[')
		blank()
		for i := range r.IntN(5) {
			if i > 0 {
				out.WriteByte(',')
				blank()
			}
			randomJSON(r, out, depth-1)
			blank()
		}
		out.WriteByte(']')
	default:
		out.WriteByte('{')
		blank()
		for i := range r.IntN(5) {
			if i > 0 {
				out.WriteByte(',')
				blank()
			}
			out.WriteString(texts[r.IntN(len(texts))])
			blank()
			out.WriteByte(':')
			blank()
			randomJSON(r, out, depth-1)
			blank()
		}
		out.WriteByte('}')
	}
}

func TestElementsAreThoseThatAValidatingReaderFinds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	r := new(reader)
	for range 3000 {
		var out bytes.Buffer
		out.WriteByte('[')
		for i := range rnd.IntN(6) {
			if i > 0 {
				out.WriteString(" ,\n")
			}
			randomJSON(rnd, &out, 4)
		}
		out.WriteString(" ]")
		raw := out.Bytes()
		if !json.Valid(raw) {
			t.Fatalf("the generator wrote %s", raw)
		}
		var got, want []string
		var end int
		for e := jsonscan.ElementsAt(raw, 0); e.Next(); {
			want = append(want, string(e.Bytes()))
			end = e.Value().End
		}
		last := r.elements(raw, 1, func(_ *reader, raw []byte) { got = append(got, string(raw)) })
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) || len(want) > 0 && last != end {
			t.Fatalf("%s:\n%q, want\n%q", raw, got, want)
		}
	}
}

func TestCompactRemovesInsignificantSpaceAlone(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 14))
	for range 1000 {
		var out, want bytes.Buffer
		randomJSON(rnd, &out, 5)
		if err := json.Compact(&want, out.Bytes()); err != nil {
			t.Fatal(err)
		}
		if got := compact(nil, out.Bytes()); !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%s: %s, want %s", out.Bytes(), got, want.Bytes())
		}
	}
}

func TestStringsEndAtTheirQuote(t *testing.T) {
	for text, want := range map[string]int{
		`""`: 2, `"a"b"`: 3, `"\""x`: 4, `"\\"x`: 4, `"\\\""x`: 6, `"\\\\"x`: 6, `"never`: 6, `"`: 1, `"\`: 2, `"\"`: 3,
	} {
		if got := stringEnd([]byte(text), 0); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

func TestElementsOfBrokenArraysEnd(t *testing.T) {
	r := new(reader)
	for _, raw := range []string{"", "[", "[,", "[[", "[}", "[\"", "[1", "[1 2", "[]]]", "[}{", "[:]", "[\x00\xff"} {
		n := 0
		end := r.elements([]byte(raw), 1, func(*reader, []byte) { n++ })
		if n > len(raw) || end > max(1, len(raw)) {
			t.Errorf("%q: %d elements up to %d", raw, n, end)
		}
	}
}

func TestStringsAreCountedAsTheyRead(t *testing.T) {
	e := warm(t)
	m := resolve(nil, Rules{Model: "gpt-4o"})
	for _, text := range []string{"", "hello", "line\nline\ttab", `quotes " and \ slashes`, "é ü 漢字 😀", strings.Repeat("more \"and\" more\n", 5000), "\x01\x02"} {
		token, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		r := &reader{e: e, model: m, exactLeft: 1 << 20}
		r.encoding = mustEncoding(t, "o200k_base")
		if got, want := r.count(token), count(t, text); got != want {
			t.Errorf("%.30q: %d tokens, want %d", text, got, want)
		}
	}
}

func TestTheEndOfAStringIsItsFirstQuoteThatIsNotEscaped(t *testing.T) {
	r := rand.New(rand.NewPCG(83, 84))
	for range 5000 {
		text := []byte{'"'}
		for range r.IntN(12) {
			text = append(text, `\\\""ab`[r.IntN(7)])
		}
		want, escaped := len(text), false
		for i := 1; i < len(text); i++ {
			if text[i] == '"' && !escaped {
				want = i + 1
				break
			}
			escaped = text[i] == '\\' && !escaped
		}
		if got := stringEnd(text, 0); got != want {
			t.Fatalf("%s ends at %d, want %d", text, got, want)
		}
		if got := valueEnd(text, 0); got != want {
			t.Fatalf("%s, as a value, ends at %d, want %d", text, got, want)
		}
		moved := append([]byte(`\\\`), text...) // what stands before does not matter
		if got := stringEnd(moved, 3); got != want+3 {
			t.Fatalf("%s ends at %d from 3 on, want %d", moved, got, want+3)
		}
	}
}
