package jsonscan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// readString reads within a key or a value at a Node, up to its end or an
// escape.
func (p *Push) readString(b []byte, i int) int {
	end := plain(b, i)
	if end > i {
		p.flushHigh()
		p.emit(b[i:end])
	}
	if end == len(b) {
		return end
	}
	switch b[end] {
	case '\\':
		p.state, p.hex = inEscape, 0
	case '"':
		p.flushHigh()
		p.endString()
	default:
		p.state = broken
	}
	return end + 1
}

func (p *Push) endString() {
	if !p.inKey {
		p.endScalar(String)
		return
	}
	p.inKey, p.state = false, atColon
	p.node = nil
	if len(p.text) <= maxKey {
		p.node = p.top().node.Fields[string(p.text)]
	}
}

// usualText is the room for a key or a short value, in bytes.
const usualText = 64

// emit takes decoded text of the string being read.
func (p *Push) emit(piece []byte) {
	if !p.inKey && p.node.Long {
		p.visitor.Part(p.node.ID, piece)
		return
	}
	most := MaxScalar
	if p.inKey {
		most = maxKey + 1
	}
	if p.text == nil {
		p.text = make([]byte, 0, usualText)
	}
	p.text = append(p.text, piece[:min(len(piece), most-len(p.text))]...)
}

func (p *Push) emitRune(r rune) {
	var buf [utf8.UTFMax]byte
	p.emit(utf8.AppendRune(buf[:0], r))
}

// flushHigh gives up on a high surrogate whose other half did not come.
func (p *Push) flushHigh() {
	if p.high != 0 {
		p.high = 0
		p.emitRune(utf8.RuneError)
	}
}

// readEscape reads a byte behind a backslash.
func (p *Push) readEscape(b []byte, i int) int {
	c := b[i]
	if p.hex == 0 {
		if c == 'u' {
			p.hex, p.point = 4, 0
			return i + 1
		}
		if bytes.IndexByte([]byte(`"\/bfnrt`), c) < 0 {
			p.state = broken
			return i
		}
		p.flushHigh()
		p.emitRune(simple(c))
		p.state = inString
		return i + 1
	}
	d := hexDigit(c)
	if d < 0 {
		p.state = broken
		return i
	}
	p.point = p.point<<4 | d
	if p.hex--; p.hex == 0 {
		p.state = inString
		p.endPoint()
	}
	return i + 1
}

// endPoint takes a \u escape, a surrogate pair as one.
func (p *Push) endPoint() {
	if p.high != 0 {
		if pair := utf16.DecodeRune(p.high, p.point); pair != utf8.RuneError {
			p.high = 0
			p.emitRune(pair)
			return
		}
		p.flushHigh()
	}
	if 0xD800 <= p.point && p.point < 0xDC00 {
		p.high = p.point
		return
	}
	p.emitRune(p.point) // a lone low surrogate is written as U+FFFD
}

// readWord reads a number, true, false or null, which end where something else
// begins.
func (p *Push) readWord(b []byte, i int) int {
	for ; i < len(b); i++ {
		switch b[i] {
		case ',', '}', ']', ' ', '\n', '\r', '\t':
			p.endWord()
			return i
		}
		if len(p.text) < maxWord {
			p.text = append(p.text, b[i])
		}
	}
	return i
}

// maxWord is the longest number or word that is read; a longer one is none.
const maxWord = 64

// endWord takes a number or word that has ended; one that was cut for its
// length is not looked at.
func (p *Push) endWord() {
	if len(p.text) < maxWord {
		if end, err := skipScalar(p.text, 0); err != nil || end != len(p.text) {
			p.state = broken
			return
		}
	}
	p.endScalar(kindOf(p.text[0]))
}

// passLevels passes over objects and arrays that no Node describes.
func (p *Push) passLevels(b []byte, i int) int {
	start := i
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			p.raw(b[start : i+1])
			p.state = passText
			return i + 1
		case '{', '[':
			p.pass++
		case '}', ']':
			if p.pass--; p.pass == 0 {
				p.raw(b[start : i+1])
				p.endPassed()
				return i + 1
			}
		}
	}
	p.raw(b[start:])
	return i
}

func (p *Push) endPassed() {
	if p.node != nil && p.node.ID != 0 {
		p.visitor.Close(p.node.ID, p.passed)
	}
	p.endValue()
}

// passString passes over a string that no Node describes.
func (p *Push) passString(b []byte, i int) int {
	end := plain(b, i)
	p.raw(b[i:min(end+1, len(b))])
	if end == len(b) {
		return end
	}
	switch b[end] {
	case '\\':
		p.state = passEscape
	case '"':
		p.state = passLevel
		if p.pass == 0 {
			p.endValue()
		}
	default:
		p.state = broken
	}
	return end + 1
}
