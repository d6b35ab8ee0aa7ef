package estimate

import (
	"math"
	"unicode/utf8"

	"llmgw/internal/tokens"
)

// The classes of text that models' tokenizers treat differently.
const (
	latin = iota // letters of ASCII and the like, signs, white space
	digit
	wide // other scripts
	cjk  // ideographs, kana, hangul
	classes
)

// tally is what was counted of a body, or of a part of it, in tokens of our
// encoding.
type tally struct {
	text, tools   int // tokens of text
	overhead      int // of the chat format, in the model's own tokens
	fixed         int // what tools cost beside their text, likewise
	images, media int // likewise
	sound         int // of media

	bytes [classes]int // of text and tools by class; only for inexact models

	system  bool // a system message is among it
	several bool // tools were called together, and what follows may be their results
	newline int  // tokens that a line feed would add to the first system message
	sampled bool
	hidden  hiddenKinds
}

// add adds what b has to t.
func (t *tally) add(b *tally) {
	t.text += b.text
	t.overhead += b.overhead
	t.tools += b.tools
	t.fixed += b.fixed
	t.images += b.images
	t.media += b.media
	t.sound += b.sound
	for i, n := range b.bytes {
		t.bytes[i] += n
	}
	if !t.system {
		t.system, t.newline = b.system, b.newline
	}
	t.several = b.several
	t.sampled = t.sampled || b.sampled
	t.hidden |= b.hidden
}

// parts are the tally in the tokens of a model whose factor for text is start.
func (t *tally) parts(start float64) Parts {
	return Parts{
		Text:     scale(t.text, start),
		Messages: tokens.Count(max(0, t.overhead)),
		Tools:    tokens.Count(max(0, int(scale(t.tools, start))+t.fixed)),
		Images:   tokens.Count(t.images),
		Media:    tokens.Count(t.media),
		Factor:   1,
	}
}

// scale is n × factor, rounded up, within what a Count may be.
func scale[N int | tokens.Count](n N, factor float64) tokens.Count {
	x := math.Ceil(float64(n)*factor - 1e-6)
	if !(x < float64(tokens.MaxCount)) {
		return tokens.MaxCount
	}
	return tokens.Count(max(0, x))
}

// classify adds the bytes of a text to their classes.
func (t *tally) classify(text []byte) {
	digits, ascii := 0, 0
	for i := 0; i < len(text); {
		if b := text[i]; b < utf8.RuneSelf {
			ascii++
			if b-'0' <= 9 {
				digits++
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		t.bytes[classOf(r)] += size
		i += size
	}
	t.bytes[digit] += digits
	t.bytes[latin] += ascii - digits
}

// classOf is the class of a character outside ASCII.
func classOf(r rune) int {
	switch {
	case r < 0x250, r >= 0x2000 && r < 0x2e80:
		return latin
	case r >= 0x2e80 && r < 0xa4d0, r >= 0xac00 && r < 0xd7b0, r >= 0xf900 && r < 0xfb00,
		r >= 0xff00 && r < 0xfff0, r >= 0x20000 && r < 0x40000:
		return cjk
	}
	return wide
}
