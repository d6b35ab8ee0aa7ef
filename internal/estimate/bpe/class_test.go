package bpe

import (
	"bufio"
	"fmt"
	"os"
	"testing"
)

func TestEveryCodePointHasTheClassOfUnicode17(t *testing.T) {
	file, err := os.Open("testdata/unicode17_classes.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want := map[int]class{0: other, 1: upper, 2: lower, 3: caseless, 4: mark, 5: number, 6: space, 7: newline}
	seen := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var first, last, c int
		if _, err := fmt.Sscan(lines.Text(), &first, &last, &c); err != nil {
			t.Fatal(err)
		}
		for r := first; r <= last; r++ {
			if got := runeClass(rune(r)); got != want[c] {
				t.Fatalf("%U: class %b, want %b", r, got, want[c])
			}
			s := []byte(string(rune(r)))
			if r >= 0xd800 && r <= 0xdfff {
				s = nil
			}
			if len(s) > 0 {
				if got, w := classAt(s, 0); got != want[c] || w != len(s) {
					t.Fatalf("%U: class %b of %d bytes, want %b of %d", r, got, w, want[c], len(s))
				}
			}
			seen++
		}
	}
	if seen != 0x110000 {
		t.Errorf("%d code points, want %d", seen, 0x110000)
	}
}

func TestBrokenUTF8IsOneSymbolAByte(t *testing.T) {
	for _, s := range []string{"\xff", "\xc3", "\xe2\x82", "\xed\xa0\x80", "\xc0\x80", "\xe0\x80\x80", "\xf5\x80\x80\x80", "\xf0\x90"} {
		for i := range len(s) {
			if c, w := classAt([]byte(s), i); c != other || w != 1 {
				t.Errorf("%x at %d: class %b of %d bytes, want a symbol of 1", s, i, c, w)
			}
		}
	}
}

func TestPieces(t *testing.T) {
	for _, s := range []struct {
		why   string
		split splitter
		text  string
		want  []string
	}{
		{"a word takes one blank before it", splitO200K, "a  b", []string{"a", " ", " b"}},
		{"a change of case starts a word", splitO200K, "fooBarHTTPServer", []string{"foo", "Bar", "HTTPServer"}},
		{"which the older encoding does not do", splitCL100K, "fooBarHTTPServer", []string{"fooBarHTTPServer"}},
		{"a contraction ends its word", splitO200K, "don't DON'T", []string{"don't", " DON'T"}},
		{"or stands alone", splitCL100K, "don't", []string{"don", "'t"}},
		{"in lower case only, in the oldest", splitGPT2, "don't DON'T", []string{"don", "'t", " DON", "'", "T"}},
		{"the long s is an s", splitO200K, "it'ſ", []string{"it'ſ"}},
		{"digits come in threes", splitO200K, "12345", []string{"123", "45"}},
		{"but once did not", splitGPT2, " 12345", []string{" 12345"}},
		{"symbols take the line ends behind them", splitO200K, ";\n\n/x", []string{";\n\n/", "x"}},
		{"a slash is no line end in cl100k", splitCL100K, ";\n\n/x", []string{";\n\n", "/x"}},
		{"blanks end after the last line end", splitO200K, "a \n \n b", []string{"a", " \n \n", " b"}},
		{"a mark alone is a word", splitO200K, "\u0301ABC", []string{"\u0301", "ABC"}},
		{"or the prefix of one", splitO200K, "\u0301abc", []string{"\u0301abc"}},
		{"upper letters before a mark go with it", splitO200K, "AB\u0301CD", []string{"AB\u0301", "CD"}},
		{"blanks at the end stay together", splitO200K, "a   ", []string{"a", "   "}},
	} {
		var got []string
		for i := 0; i < len(s.text); {
			end := s.split.next([]byte(s.text), i)
			got = append(got, s.text[i:end])
			i = end
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", s.want) {
			t.Errorf("%s: %q, want %q", s.why, got, s.want)
		}
	}
}
