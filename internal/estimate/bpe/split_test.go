package bpe

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// pieces cuts a text, and fails if the cutting does not move on.
func pieces(t testing.TB, split splitter, text []byte) [][]byte {
	t.Helper()
	var all [][]byte
	for i := 0; i < len(text); {
		end := split.next(text, i)
		if end <= i || end > len(text) {
			t.Fatalf("%q: the piece at %d ends at %d", text, i, end)
		}
		all = append(all, text[i:end])
		i = end
	}
	return all
}

var splitters = []splitter{splitGPT2, splitCL100K, splitO200K, splitQwen, splitTekken, splitDeepSeek}

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"", "it's", "\xff\xc3\xe2\x82", "a\u0301B\u0301c", "   \n\n  x", "''''", "12\u00b34", " ", "'ſ"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, split := range splitters {
			all := pieces(t, split, text)
			if !bytes.Equal(bytes.Join(all, nil), text) {
				t.Fatalf("%q: the pieces are not the text", text)
			}
			if !utf8.Valid(text) {
				continue
			}
			for _, p := range all {
				if !utf8.Valid(p) {
					t.Fatalf("%q: a character is cut in %q", text, p)
				}
			}
		}
	})
}

// What a piece is depends on nothing before it: cutting from the start of any
// piece gives the same pieces from there on.
func TestPiecesDependOnNothingBeforeThem(t *testing.T) {
	r := rand.New(rand.NewPCG(91, 92))
	for range 300 {
		text := []byte(randomText(r, 200))
		for _, split := range splitters {
			all := pieces(t, split, text)
			at := 0
			for i, p := range all {
				if rest := pieces(t, split, text[at:]); len(rest) != len(all)-i {
					t.Fatalf("%q from %d: %d pieces, want %d", text, at, len(rest), len(all)-i)
				}
				at += len(p)
			}
		}
	}
}

func TestWordsAreFoundAlikeBytewiseAndEightAtATime(t *testing.T) {
	r := rand.New(rand.NewPCG(93, 94))
	letterish := []rune("abcxyzABCXYZ`{@[éß漢1 '_\u0301\x00\x7f")
	for range 3000 {
		var text []byte
		for range 1 + r.IntN(30) {
			if r.IntN(3) > 0 {
				text = append(text, byte('a'+r.IntN(26)))
			} else {
				text = utf8.AppendRune(text, letterish[r.IntN(len(letterish))])
			}
		}
		for i := range text {
			if !utf8.RuneStart(text[i]) {
				continue
			}
			if got, want := letterRun(text, i), run(text, i, letters); got != want {
				t.Fatalf("letters of %q from %d end at %d, want %d", text, i, got, want)
			}
			if got, want := lowerRun(text, i), run(text, i, lower|caseless|mark); got != want {
				t.Fatalf("lower letters of %q from %d end at %d, want %d", text, i, got, want)
			}
		}
	}
}

func TestLowercaseMarksItsLetters(t *testing.T) {
	for b := range 256 {
		for at := range 8 {
			w := uint64(b) << (8 * at)
			got := lowercase(w)>>(8*at+7)&1 == 1
			if want := b >= 'a' && b <= 'z'; got != want {
				t.Errorf("%#x at %d: %v, want %v", b, at, got, want)
			}
		}
	}
}

func TestContractionsInEveryCase(t *testing.T) {
	for text, want := range map[string]int{
		"'s": 2, "'S": 2, "'t": 2, "'M": 2, "'d": 2, "'re": 3, "'RE": 3, "'Ve": 3, "'lL": 3, "'ſ": 3,
		"'": 0, "'x": 0, "'r": 0, "'rx": 0, "'l": 0, "'v": 0, "s": 0, "": 0, "'å": 0, "'\xe5\xbf": 0, "'\xc5": 0, "'\x13": 0, "'ss": 2,
	} {
		if got := contraction([]byte(text), 0); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestWhiteSpaceEndsWhereTheOfficialPatternEndsIt(t *testing.T) {
	for _, s := range []struct {
		text        string
		modern, old int
	}{
		{" ", 1, 1}, {"  ", 2, 2}, {"  x", 1, 1}, {"\t\tx", 1, 1}, {"\n", 1, 1}, {"\n\n", 2, 2}, {"\n \n", 3, 3}, {"\n  x", 1, 2}, {" \n x", 2, 2},
		{"\r\nx", 2, 1}, {"\u3000\u3000x", 3, 3}, {"\tx", 1, 1}, {" \u0085\n\u00a0x", 4, 4}, {"\n\tx", 1, 1},
	} {
		if got := spaces([]byte(s.text), 0); got != s.modern {
			t.Errorf("%q: %d, want %d", s.text, got, s.modern)
		}
		if got := gpt2Spaces([]byte(s.text), 0); got != s.old {
			t.Errorf("%q, as it was once: %d, want %d", s.text, got, s.old)
		}
	}
}

func TestTheOldestEncodingsKnowContractionsInLowerCaseAlone(t *testing.T) {
	for text, want := range map[string]string{
		"'s": "'s", "'S": "'|S", "'re": "'re", "'rE": "'|rE", "'Re": "'|Re", "'ll": "'ll", "'lL": "'|lL", "'ve": "'ve", "'vE": "'|vE", "'d": "'d", "'m": "'m", "'T": "'|T",
		"it's": "it|'s", "a 's": "a| '|s", "'ſ": "'|ſ", "'": "'", "'x": "'|x", "''s": "''|s",
	} {
		var all []string
		for _, p := range pieces(t, splitGPT2, []byte(text)) {
			all = append(all, string(p))
		}
		if got := strings.Join(all, "|"); got != want {
			t.Errorf("%q is cut %q, want %q", text, got, want)
		}
	}
}

func TestSplittersDifferInDigitsAndContractions(t *testing.T) {
	for _, s := range []struct {
		text, o200k, cl100k, qwen, tekken, deepSeek string
	}{
		{"12345", "123|45", "123|45", "1|2|3|4|5", "1|2|3|4|5", "123|45"},
		{"don'T", "don'T", "don|'T", "don|'T", "don|'T", "don|'T"},
		{"aBc", "a|Bc", "aBc", "aBc", "a|Bc", "aBc"},
		{"a/\nb", "a|/\n|b", "a|/\n|b", "a|/\n|b", "a|/\n|b", "a|/\n|b"},
		{"-/\n/b", "-/\n/|b", "-/\n|/b", "-/\n|/b", "-/\n/|b", "-/\n|/b"},
		{"a\u0301b", "a\u0301b", "a|\u0301b", "a|\u0301b", "a\u0301b", "a\u0301b"},
	} {
		for split, want := range map[splitter]string{splitO200K: s.o200k, splitCL100K: s.cl100k, splitQwen: s.qwen, splitTekken: s.tekken, splitDeepSeek: s.deepSeek} {
			var all []string
			for _, p := range pieces(t, split, []byte(s.text)) {
				all = append(all, string(p))
			}
			if got := strings.Join(all, "|"); got != want {
				t.Errorf("%q is cut %q by splitter %d, want %q", s.text, got, split, want)
			}
		}
	}
}
