package bpe

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// DeepSeek cuts a text three times: first its numbers out, then its Chinese and
// Japanese, then the rest, and what was cut out as well, into words, signs and
// blanks. So nothing reaches over from one kind to another, and a blank before
// a number is the end of a text. It tells signs, which are punctuation and
// symbols, from what is neither: control and format characters, private ones.

// kind is what DeepSeek's splitter knows of a character: one of the first
// bits, and side.
type kind uint8

const (
	kindOther   kind = 1 << iota
	kindWord         // letters and marks
	kindMark         // with kindWord: a mark
	kindSign         // punctuation and symbols
	kindNumber       // is cut out
	kindSpace        // white space but for the next
	kindNewline      // CR, LF
	side             // of Chinese or Japanese
)

// kindAt returns the kind of the character at s[i] and its width; 0 at the end.
func kindAt(s []byte, i int) (kind, int) {
	if i >= len(s) {
		return 0, 1
	}
	c, w := classAt(s, i)
	switch c {
	case upper, lower:
		return kindWord, w
	case number:
		return kindNumber, w
	case space:
		return kindSpace, w
	case newline:
		return kindNewline, w
	}
	if w == 1 {
		if s[i] > ' ' && s[i] < 0x7f {
			return kindSign, w
		}
		return kindOther, w
	}
	r, _ := utf8.DecodeRune(s[i:])
	k := kindOther
	switch {
	case c == caseless:
		k = kindWord
	case c == mark:
		k = kindWord | kindMark
	case unicode.Is(signs, r):
		k = kindSign
	}
	if r >= 0x3040 && r <= 0x30ff || r >= 0x4e00 && r <= 0x9fa5 {
		k |= side
	}
	return k, w
}

// kindRun returns the end of the run of characters of the kinds in set that
// starts at s[i], all on one side.
func kindRun(s []byte, i int, set, on kind) int {
	for {
		k, w := kindAt(s, i)
		if k&set == 0 || k&side != on {
			return i
		}
		i += w
	}
}

// wordRun is kindRun for words.
func wordRun(s []byte, i int, on kind) int {
	if on == 0 {
		i = asciiLetterRun(s, i)
	}
	return kindRun(s, i, kindWord, on)
}

// nextDeepSeek: up to three digits; a sign and the letters of ASCII behind it;
// a word with one character before it; signs with a blank before them and what
// ends a line; blanks; or what is none of these.
func nextDeepSeek(s []byte, i int) int {
	k, w := kindAt(s, i)
	on, p := k&side, i+w
	switch {
	case k&kindNumber != 0:
		return digits(s, i, 3)
	case k&kindWord != 0:
		return wordRun(s, p, on)
	case k&(kindSpace|kindOther) != 0:
		if end := wordRun(s, p, on); end > p {
			return end
		}
	case k&kindSign != 0 && w == 1:
		if end := asciiLetterRun(s, p); end > p {
			return end
		}
	}
	from := i
	if s[i] == ' ' {
		from = p
	}
	if end := kindRun(s, from, kindSign, on); end > from {
		return kindRun(s, end, kindNewline, 0)
	}
	if k&kindOther != 0 {
		return others(s, p, on)
	}
	return blanksOf(s, i)
}

// others returns the end of a run of what is none of the other kinds; the last
// of it belongs to the word behind it.
func others(s []byte, i int, on kind) int {
	last := i
	for {
		k, w := kindAt(s, i)
		if k&kindOther == 0 || k&side != on {
			if k&kindWord != 0 && k&side == on {
				return last
			}
			return i
		}
		last = i
		i += w
	}
}

// blanksOf is spaces where a number, Chinese or Japanese ends the text.
func blanksOf(s []byte, i int) int {
	end := spaces(s, i)
	run := kindRun(s, i, kindSpace|kindNewline, 0)
	if k, _ := kindAt(s, run); k&(kindNumber|side) != 0 && !bytes.ContainsAny(s[i:run], "\r\n") {
		return run
	}
	return end
}
