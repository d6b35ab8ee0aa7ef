package bpe

import "golang.org/x/text/unicode/norm"

// keptComposed is the largest composed text, in bytes, whose memory is kept for
// the next.
const keptComposed = 64 << 10

// compose returns text in Unicode's normal form C, in which a letter and its
// accent are one character where there is one. Text that is in it already, as
// nearly all is, comes back as it is. (Of more than thirty marks on one letter,
// which no language has, the library makes thirty and a joiner, again and
// again.)
func (c *counter) compose(text []byte) []byte {
	if !mayCompose(text) || norm.NFC.IsNormal(text) {
		return text
	}
	composed := norm.NFC.Append(c.composed[:0], text...)
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
