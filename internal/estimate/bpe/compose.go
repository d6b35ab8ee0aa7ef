package bpe

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// keptComposed is the largest composed text, in bytes, whose memory is kept for
// the next.
const keptComposed = 64 << 10

// compose returns text in Unicode's normal form C, in which a letter and its
// accent are one character where there is one. Text that is in it already, as
// nearly all is, comes back as it is.
func (c *counter) compose(text []byte) []byte {
	if !mayCompose(text) || norm.NFC.IsNormal(text) {
		return text
	}
	composed := appendComposed(c.composed[:0], text)
	if cap(composed) <= keptComposed {
		c.composed = composed
	}
	return composed
}

// firstMark is the first byte of U+0300, the first character that composes with
// one before it, and is below those of all others.
const firstMark = 0xcc

// mayCompose tells whether text has a byte from firstMark on.
func mayCompose(text []byte) bool {
	for len(text) >= 8 {
		w := load(text)
		// firstMark and what is above are the bytes with the high bit whose
		// other seven carry into it when 0x100 − firstMark is added.
		if w&((w&^highs)+ones*(0x100-firstMark))&highs != 0 {
			return true
		}
		text = text[8:]
	}
	for _, b := range text {
		if b >= firstMark {
			return true
		}
	}
	return false
}

// fewMarks is how many combining marks in a row the library takes; between more
// of them it puts joiners, which the normal form does not have.
const fewMarks = 20

// appendComposed appends text in normal form C.
func appendComposed(dst, text []byte) []byte {
	done, start, marks := 0, 0, 0 // start: of the character that the marks are on
	for i := 0; i < len(text); {
		p := norm.NFC.Properties(text[i:])
		size := max(1, p.Size())
		if p.CCC() != 0 {
			marks++
			i += size
			continue
		}
		if marks > fewMarks {
			dst = appendMarked(appendFew(dst, text[done:start]), text[start:i])
			done, start = i, i
		}
		if p.BoundaryBefore() {
			start = i
		}
		marks = 0
		i += size
	}
	if marks > fewMarks {
		return appendMarked(appendFew(dst, text[done:start]), text[start:])
	}
	return appendFew(dst, text[done:])
}

// appendFew is appendComposed for a text without many marks in a row, that
// starts where nothing composes with what is before.
func appendFew(dst, text []byte) []byte {
	if len(dst) == 0 {
		return norm.NFC.Append(dst, text...)
	}
	return append(dst, norm.NFC.Bytes(text)...)
}

// appendMarked is appendComposed for a character and any number of marks on it,
// by the definition: decompose, bring the marks into the order of their classes,
// and compose with the character each mark that none of its class, or of a
// higher one, stands before.
func appendMarked(dst, text []byte) []byte {
	var base []byte
	var classes [256][]byte // marks by class, each class in the order of the text
	for len(text) > 0 {
		p := norm.NFD.Properties(text)
		size := max(1, p.Size())
		parts := p.Decomposition()
		if parts == nil {
			parts = text[:size]
		}
		for len(parts) > 0 {
			q := norm.NFD.Properties(parts)
			n := max(1, q.Size())
			if ccc := q.CCC(); ccc != 0 {
				classes[ccc] = append(classes[ccc], parts[:n]...)
			} else {
				base = append(base, parts[:n]...)
			}
			parts = parts[n:]
		}
		text = text[size:]
	}
	for ccc, marks := range classes {
		for len(marks) > 0 {
			_, n := utf8.DecodeRune(marks)
			both := norm.NFC.Bytes(append(base[:len(base):len(base)], marks[:n]...))
			if len(base) == 0 || utf8.RuneCount(both) > utf8.RuneCount(norm.NFC.Bytes(base)) {
				break // and so no other of its class
			}
			base, marks = both, marks[n:]
		}
		classes[ccc] = marks
	}
	dst = append(dst, norm.NFC.Bytes(base)...)
	for _, marks := range classes {
		dst = append(dst, marks...)
	}
	return dst
}
