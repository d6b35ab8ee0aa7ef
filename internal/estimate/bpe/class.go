package bpe

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

//go:generate go run generate.go

// class is what the splitters know of a character: exactly one of these bits.
type class = uint8

const (
	other    class = 1 << iota
	upper          // Lu, Lt
	lower          // Ll
	caseless       // Lm, Lo: letters that are both
	mark           // M
	number         // N
	space          // White_Space but for newline
	newline        // CR and LF

	letters = upper | lower | caseless
	blanks  = space | newline
	symbols = other | mark
)

// asciiClass is the class of each single byte; 0 says that the byte is part of
// a longer sequence (or of none).
var asciiClass = func() (t [256]class) {
	for b := range utf8.RuneSelf {
		t[b] = runeClass(rune(b))
	}
	return t
}()

// runeClass returns the class of a code point.
func runeClass(r rune) class {
	page := int(r>>classPageBits) * 2
	if uint(page) >= uint(len(classIndex)) {
		return other
	}
	n := int(classIndex[page]) | int(classIndex[page+1])<<8
	return classPages[n<<classPageBits|int(r)&(1<<classPageBits-1)]
}

// classAt returns the class of the character at s[i] and its width in bytes.
// A byte that is no UTF-8 is a character of class other.
func classAt(s []byte, i int) (class, int) {
	if c := asciiClass[s[i]]; c != 0 {
		return c, 1
	}
	return wideClass(s[i:])
}

// wideClass is classAt for a character outside ASCII at the start of s.
func wideClass(s []byte) (class, int) {
	if len(s) >= 3 && s[0]&0xf0 == 0xe0 && s[1]&0xc0 == 0x80 && s[2]&0xc0 == 0x80 {
		r := rune(s[0]&0x0f)<<12 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f)
		if r >= 0x800 && (r < 0xd800 || r > 0xdfff) {
			return runeClass(r), 3
		}
		return other, 1
	}
	if len(s) >= 2 && s[0] >= 0xc2 && s[0] < 0xe0 && s[1]&0xc0 == 0x80 {
		return runeClass(rune(s[0]&0x1f)<<6 | rune(s[1]&0x3f)), 2
	}
	r, w := utf8.DecodeRune(s)
	if r == utf8.RuneError && w <= 1 {
		return other, 1
	}
	return runeClass(r), w
}

// run returns the end of the run of characters of the classes in set that
// starts at s[i].
func run(s []byte, i int, set class) int {
	for i < len(s) {
		c := asciiClass[s[i]]
		if c&set != 0 {
			i++
			continue
		}
		if c != 0 {
			return i
		}
		c, w := wideClass(s[i:])
		if c&set == 0 {
			return i
		}
		i += w
	}
	return i
}

// Words of ASCII are found eight bytes at a time: what costs in a loop over
// bytes is that nobody can predict its end.

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// letterRun is run for letters.
func letterRun(s []byte, i int) int { return run(s, asciiLetterRun(s, i), letters) }

// asciiLetterRun is run for letters of ASCII alone.
func asciiLetterRun(s []byte, i int) int {
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		if other := ^lowercase(w|ones*0x20) & highs; other != 0 {
			return i + bits.TrailingZeros64(other)/8
		}
	}
	for i < len(s) && asciiClass[s[i]]&(upper|lower) != 0 {
		i++
	}
	return i
}

// lowerRun is run for what may follow in a word: all letters but upper ones,
// and marks.
func lowerRun(s []byte, i int) int {
	for i+8 <= len(s) {
		w := binary.LittleEndian.Uint64(s[i:])
		if other := ^lowercase(w) & highs; other != 0 {
			return run(s, i+bits.TrailingZeros64(other)/8, lower|caseless|mark)
		}
		i += 8
	}
	return run(s, i, lower|caseless|mark)
}

// lowercase sets the high bit of each byte of w that is a lower letter of ASCII;
// the other bits mean nothing.
func lowercase(w uint64) uint64 {
	low := w &^ highs
	return (low + ones*(0x80-'a')) &^ (low + ones*(0x7f-'z')) &^ w
}
