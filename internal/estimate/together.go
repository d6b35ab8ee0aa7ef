package estimate

import (
	"unicode/utf16"
	"unicode/utf8"

	"llmgw/internal/jsonscan"
)

// When one message calls several tools, OpenAI shows its models the calls and
// their results as JSON that is all ASCII: a Korean syllable becomes \ud14c,
// five tokens and more for one. Nothing of it is published. Users have compared
// bills: of one, two and three calls of a calculator (40, 89, 114 tokens), and
// of results of a thousand Korean words (1,121 for one, 39,235 for three).

// togetherResult is what each result costs beside its text, more than alone.
const togetherResult = 4

// calls counts the calls of a message, and tells whether their results will be
// shown as those of calls made together.
func (r *reader) calls(raw []byte) bool {
	if jsonscan.KindAt(raw, 0) != jsonscan.Array {
		return false
	}
	n := 0
	r.each(raw, func(r *reader, raw []byte) {
		r.part(raw, 0)
		n++
	})
	if n < 2 || r.model.chat.together == 0 {
		return false
	}
	r.t.overhead += r.model.chat.together
	return true
}

// isResult tells whether a message is the result of a call.
func (r *reader) isResult(raw []byte) bool {
	return jsonscan.KindAt(raw, 0) == jsonscan.Object && string(find(raw, "role")) == `"tool"`
}

// result counts the result of one of several calls.
func (r *reader) result(raw []byte) {
	r.escaping = true
	r.message(raw)
	r.escaping = false
	r.t.overhead += togetherResult
}

// appendASCII appends text as a JSON string of ASCII characters.
func appendASCII(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	unit := func(c uint16) {
		dst = append(dst, '\\', 'u', hex[c>>12], hex[c>>8&15], hex[c>>4&15], hex[c&15])
	}
	dst = append(dst, '"')
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(text[i:])
			i += size
			if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
				unit(uint16(high))
				r = low
			}
			unit(uint16(r))
			continue
		}
		i++
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ':
			unit(uint16(c))
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
