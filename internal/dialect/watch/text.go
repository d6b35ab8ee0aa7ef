package watch

import (
	"unicode/utf8"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

const (
	// cutAt is how much text is held before some of it is counted, mustCut how
	// much if it has no word's end.
	cutAt, mustCut = 1 << 10, 2 << 10
)

// text counts the tokens of a text that comes in pieces, in bounded memory. It
// is cut before a space, where tokenizers cut too, so that the sum is that of
// the whole text.
type text struct {
	count dialect.Counter
	held  []byte
	total tokens.Count
	field Field // whose text is held
	since int   // of held: what came before the current event; below 0: some is counted

	rest    tokens.Count // of held, if counted
	counted bool
}

// mark says that an event begins.
func (t *text) mark() { t.since = len(t.held) }

// forget takes back the current event's text, if none of it is counted yet.
func (t *text) forget() {
	if t.since >= 0 && t.since <= len(t.held) {
		t.held, t.counted = t.held[:t.since], false
	}
}

// add takes the next piece of a field's text.
func (t *text) add(f Field, piece []byte) {
	if f != t.field {
		t.end()
		t.field = f
	}
	for len(piece) > 0 {
		n := min(len(piece), mustCut-len(t.held))
		t.held, t.counted = append(t.held, piece[:n]...), false
		piece = piece[n:]
		if len(t.held) >= cutAt {
			t.cut()
		}
	}
}

// end counts what is held: what follows is another text.
func (t *text) end() {
	if len(t.held) > 0 {
		t.total = t.sum()
		t.held, t.counted = t.held[:0], false
		t.since = 0
	}
}

// sum is the count of all that came so far. Asked again, it does not count again.
func (t *text) sum() tokens.Count {
	if len(t.held) == 0 {
		return t.total
	}
	if !t.counted {
		t.rest, t.counted = t.count(t.held), true
	}
	return tokens.Add(t.total, t.rest)
}

func (t *text) cut() {
	n := wordEnd(t.held)
	if n == 0 && len(t.held) < mustCut {
		return
	}
	if n == 0 {
		n = runeEnd(t.held)
	}
	t.total = tokens.Add(t.total, t.count(t.held[:n]))
	t.held, t.counted = t.held[:copy(t.held, t.held[n:])], false
	t.since -= n
}

// wordEnd is the offset of the last single space between two words; 0 if there
// is none.
func wordEnd(b []byte) int {
	for i := len(b) - 2; i > 0; i-- {
		if b[i] == ' ' && isWord(b[i-1]) && isWord(b[i+1]) {
			return i
		}
	}
	return 0
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c >= utf8.RuneSelf
}

// runeEnd is the length of b without a character that is not whole yet.
func runeEnd(b []byte) int {
	for i := len(b) - 1; i >= 0 && i > len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}
