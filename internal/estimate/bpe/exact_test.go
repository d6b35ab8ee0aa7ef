package bpe

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	tiktoken "github.com/pkoukk/tiktoken-go"
	"golang.org/x/text/unicode/norm"
)

// alphabets are what hostile and ordinary texts are made of.
var alphabets = []string{
	"abcdefghijklmnopqrstuvwxyz     ", "ABCabc'sdtmSTré ", "0123456789.,:- ", "\n\r\t  /*-=#", "的一是不了人我在有他。，",
	"бвгдежзийклмн ", "ابتثجحخدذر ", "aé̂ñ́ ", "👩‍👩‍👧🇬🇷😀 ", "<|endoftext|>", "\u00a0\u2003\u3000\u0085x ", "ab", "\x00\x7f\u200b\ufeff",
	"{}[]\":,\\ntrue ", "ǅʰªⅧ½٣ ",
}

// randomText is a text of up to n runes from a few alphabets.
func randomText(r *rand.Rand, n int) string {
	var out strings.Builder
	for left := r.IntN(n); left > 0; {
		alphabet := []rune(alphabets[r.IntN(len(alphabets))])
		for run := min(left, 1+r.IntN(40)); run > 0; run-- {
			out.WriteRune(alphabet[r.IntN(len(alphabet))])
			left--
		}
	}
	return out.String()
}

// beyondReference tells whether the reference is known to be wrong on a text:
// it does not fold the long s, and knows Unicode 15 only.
func beyondReference(text string) bool {
	if strings.ContainsRune(text, 'ſ') {
		return true
	}
	for _, r := range text {
		if !unicode.Is(unicode.Categories["L"], r) && runeClass(r)&letters != 0 || !unicode.Is(unicode.M, r) && runeClass(r) == mark {
			return true
		}
	}
	return false
}

func TestRandomTextsHaveTheTokensOfTiktokenGo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range fewer(names) {
		ours, reference := get(t, name), reference(t, name)
		for range shorter(300) {
			text := randomText(r, 600)
			if beyondReference(text) {
				t.Fatalf("the alphabets hold a character that the reference is wrong on: %q", text)
			}
			got, want := ours.Append(nil, []byte(text)), reference.EncodeOrdinary(text)
			if !slices.EqualFunc(got, want, func(a uint32, b int) bool { return int(a) == b }) {
				t.Fatalf("%s %q: %v, want %v", name, text, got, want)
			}
			if n := ours.Count([]byte(text)); n != len(want) {
				t.Fatalf("%s %q: counted %d, want %d", name, text, n, len(want))
			}
		}
	}
}

// define encodes a piece by the definition, in one go.
func define(c *counter, piece []byte) []uint32 {
	var m merger
	return m.encode(c.vocabulary, piece, nil)
}

func TestLongPiecesHaveTheTokensThatMergingByRankGives(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const size = 3*window + 777
	periods := []string{"ab", "the", " \t ", "abcabd", "-=", "aaab", "xyzzy", "的是", "----\n", "Aa", "ß", "0", "=", "é", "aA1"}
	for _, name := range fewer(slices.Concat(names, vendors)) {
		c := newCounter(get(t, name).split, get(t, name).vocab)
		check := func(what string, piece []byte) {
			t.Helper()
			var got []uint32
			c.merge(piece, func(ids []uint32) { got = append(got, ids...) })
			if want := define(c, piece); !slices.Equal(got, want) {
				t.Errorf("%s %s: %d tokens, want %d", name, what, len(got), len(want))
			}
		}
		for _, p := range periods[:shorter(len(periods))] {
			check("repeated "+p, bytes.Repeat([]byte(p), size/len(p)))
		}
		for i, alphabet := range alphabets[:shorter(len(alphabets))] {
			letters := []rune(alphabet)
			var text []byte
			for len(text) < size {
				text = utf8.AppendRune(text, letters[r.IntN(len(letters))])
			}
			check("random "+alphabets[i], text)
		}
		for n := shortestRepeat; n < shortestRepeat+300; n += 7 {
			check("a row of a", bytes.Repeat([]byte("a"), n))
			check("a row of blanks", bytes.Repeat([]byte(" "), n))
			check("a row of lines", bytes.Repeat([]byte("\n"), n))
		}
	}
}

func TestTokensReadBackAsTheText(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, name := range fewer(slices.Concat(names, vendors)) {
		e := get(t, name)
		tokens := tokensOf(t, name)
		for range shorter(200) {
			text := randomText(r, 2000)
			var back []byte
			for _, id := range e.Append(nil, []byte(text)) {
				back = append(back, tokens[id-e.first]...)
			}
			if e.composed {
				text = norm.NFC.String(text)
			}
			if string(back) != text {
				t.Fatalf("%s: %q reads back as %q", name, text, back)
			}
		}
	}
}

func TestEveryTokenOfTheVocabularyIsItsOwnEncoding(t *testing.T) {
	for _, name := range fewer(slices.Concat(names, vendors)) {
		e := get(t, name)
		c := newCounter(e.split, e.vocab)
		for id, bytes := range tokensOf(t, name) {
			if len(bytes) == 0 {
				continue
			}
			if got := c.find(bytes); got != uint32(id) {
				t.Fatalf("%s %q: found %d, want %d", name, bytes, got, id)
			}
			c.mergeWindow(bytes)
			if !slices.Equal(c.stack, []uint32{uint32(id)}) {
				t.Fatalf("%s %q: merged into %v, want %d", name, bytes, c.stack, id)
			}
		}
	}
}

func TestCountsOnBothSidesOfACutAddUp(t *testing.T) {
	for what, text := range corpora(t) {
		for _, name := range fewer(slices.Concat(names, vendors)) {
			e := get(t, name)
			want, sum, start := e.Count(text), 0, 0
			for start < len(text) {
				end := Cut(text, start+777)
				if end == 0 {
					end = len(text)
				}
				sum += e.Count(text[start:end])
				start = end
			}
			if sum != want {
				t.Errorf("%s %s: the parts have %d tokens, the whole %d", name, what, sum, want)
			}
			if got := e.CountParallel(text, 3); got != want {
				t.Errorf("%s %s: %d tokens in parallel, want %d", name, what, got, want)
			}
		}
	}
}

func TestNoCutIsInsideOfAPiece(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 17))
	cuts := 0
	for range 400 {
		text := []byte(randomText(r, 120))
		for at := Cut(text, 0); at > 0; at = Cut(text, at+1) {
			cuts++
			for _, name := range slices.Concat(names, vendors) {
				e := get(t, name)
				if got, want := e.Append(e.Append(nil, text[:at]), text[at:]), e.Append(nil, text); !slices.Equal(got, want) {
					t.Fatalf("%s: %q cut at %d: %v, want %v", name, text, at, got, want)
				}
			}
		}
	}
	if cuts < 1000 {
		t.Errorf("only %d cuts", cuts)
	}
}

func TestCountingIsSafeFromManyGoroutines(t *testing.T) {
	texts := corpora(t)
	var wg sync.WaitGroup
	for _, name := range names[:2] {
		for what, text := range texts {
			text = text[:40_000]
			want := get(t, name).Count(text)
			for range 4 {
				wg.Go(func() {
					e, err := Get(name)
					if err != nil {
						t.Error(err)
						return
					}
					if got := e.Count(text); got != want {
						t.Errorf("%s %s: %d, want %d", name, what, got, want)
					}
				})
			}
		}
	}
	wg.Wait()
}

func TestCountingAllocatesNothing(t *testing.T) {
	for what, text := range corpora(t) {
		for _, name := range append([]string{"o200k_base"}, fewer(vendors)...) {
			e := get(t, name)
			e.Count(text)
			if n := testing.AllocsPerRun(5, func() { e.Count(text) }); n != 0 {
				t.Errorf("%s %s: %v allocations, want none", name, what, n)
			}
		}
	}
	e := get(t, "o200k_base")
	hostile := bytes.Repeat([]byte("----\n////"), 10_000)
	e.Count(hostile)
	if n := testing.AllocsPerRun(3, func() { e.Count(hostile) }); n != 0 {
		t.Errorf("hostile: %v allocations, want none", n)
	}
}

func TestNamesOfEncodings(t *testing.T) {
	for alias, want := range map[string]string{
		"qwen3": "qwen3", "deepseek_v3": "deepseek_v3", "tekken": "tekken",
		"o200k_base": "o200k_base", "o200k_harmony": "o200k_base", "cl100k_base": "cl100k_base",
		"p50k_base": "p50k_base", "p50k_edit": "p50k_base", "r50k_base": "r50k_base", "gpt2": "r50k_base",
	} {
		if e := get(t, alias); e.Name() != want || !Known(alias) {
			t.Errorf("%s is %s, want %s", alias, e.Name(), want)
		}
	}
	if _, err := Get("o300k_base"); err == nil || Known("o300k_base") {
		t.Error("an encoding that does not exist is known")
	}
}

func FuzzCount(f *testing.F) {
	for _, seed := range []string{"", "hello, world", "\n \n", "a\x7fb", "'ſ don'T", "aaaaaaaa", "\xff\xfe", "<|endoftext|>", "日本語 text", "12345678"} {
		f.Add(seed)
	}
	references := map[string]*tiktoken.Tiktoken{}
	for _, name := range names[:2] {
		references[name] = reference(f, name)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range vendors {
			e := get(t, name)
			if n, ids := e.Count([]byte(text)), e.Append(nil, []byte(text)); n != len(ids) {
				t.Fatalf("%s: counted %d, encoded %d", name, n, len(ids))
			}
		}
		for name, want := range references {
			e := get(t, name)
			ids := e.Append(nil, []byte(text))
			if n := e.Count([]byte(text)); n != len(ids) {
				t.Fatalf("%s: counted %d, encoded %d", name, n, len(ids))
			}
			if len(text) > 300 || !utf8.ValidString(text) || beyondReference(text) {
				continue
			}
			if want := want.EncodeOrdinary(text); !slices.EqualFunc(ids, want, func(a uint32, b int) bool { return int(a) == b }) {
				t.Fatalf("%s %q: %v, want %v", name, text, ids, want)
			}
		}
	})
}
