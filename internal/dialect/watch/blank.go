package watch

// blanker finds the usage in a chunk that is too large to be held, while it
// passes: the object that is the value of the chunk's own member usage. Null is
// put in its place, as on the chunks of an API that was not asked, since the
// commas around it may have passed already. It holds nothing but a key.
type blanker struct {
	depth   int
	text    bool // within a string
	escaped bool // behind a backslash
	atKey   bool // a string here is a key of the chunk
	long    bool // the key is longer than usage, or escaped
	key     []byte
	named   bool // the last key is usage
	next    bool // its value comes next
	inside  bool // within its value
}

const usageKey = "usage"

// read reads the next piece of the chunk and returns the pieces of it that are
// the value; begins tells that one is its start.
func (b *blanker) read(data []byte, cut func(start, end int, begins bool)) {
	start, begins := 0, false
	for i, c := range data {
		switch {
		case b.text:
			b.inText(c)
		case c == '"':
			b.text, b.key, b.long = true, b.key[:0], false
		case c == '{' || c == '[':
			b.depth++
			b.atKey = b.depth == 1 && c == '{'
			if b.next && c == '{' {
				b.inside, start, begins = true, i, true
			}
			b.next = false
		case c == '}' || c == ']':
			b.depth--
			if b.inside && b.depth == 1 {
				cut(start, i+1, begins)
				b.inside, start, begins = false, 0, false
			}
		case c == ':' && b.depth == 1:
			b.atKey, b.next, b.named = false, b.named, false
		case c == ',' && b.depth == 1:
			b.atKey, b.next = true, false
		}
	}
	if b.inside {
		cut(start, len(data), begins)
	}
}

func (b *blanker) inText(c byte) {
	switch {
	case b.escaped:
		b.escaped = false
	case c == '\\':
		b.escaped, b.long = true, true
	case c == '"':
		b.text = false
		b.named = b.atKey && !b.long && string(b.key) == usageKey
	case b.atKey && len(b.key) < len(usageKey):
		b.key = append(b.key, c)
	default:
		b.long = true
	}
}
