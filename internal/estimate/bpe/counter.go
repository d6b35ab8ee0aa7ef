package bpe

// counter is the working memory of one count at a time. What it remembers of
// pieces and pairs is of one vocabulary.
type counter struct {
	*vocabulary
	split splitter

	stack    []uint32 // the tokens of the piece, so far
	held     []uint32 // of the window before
	alive    []uint64 // a bit for each place of the window: not known as a dead end
	merger   merger
	composed []byte // a text that was not in normal form

	pieces    [1 << pieceBits]pieceSlot
	pairsSeen [1 << pairBits]uint64
}

const (
	pieceBits = 14
	pairBits  = 13
)

// pieceSlot remembers the count of a piece of 2 to 15 bytes. The zero slot is
// free.
type pieceSlot struct {
	key   middleKey
	count int
}

func newCounter(split splitter, v *vocabulary) *counter {
	return &counter{
		vocabulary: v, split: split,
		stack: make([]uint32, 0, window),
		alive: make([]uint64, window/64+1),
	}
}

// count returns the number of tokens of text.
func (c *counter) count(text []byte) int {
	n := 0
	for i, rest := 0, yieldEvery; i < len(text); {
		end := c.split.next(text, i)
		n += c.piece(text, i, end)
		rest -= end - i
		i = end
		if rest < 0 {
			rest = yieldEvery
			yield()
		}
	}
	return n
}

// encode appends the tokens of text to ids.
func (c *counter) encode(ids []uint32, text []byte) []uint32 {
	for i := 0; i < len(text); {
		end := c.split.next(text, i)
		piece := text[i:end]
		i = end
		if id := c.find(piece); id != none {
			ids = append(ids, id)
			continue
		}
		c.merge(piece, func(tokens []uint32) { ids = append(ids, tokens...) })
	}
	return ids
}

// piece returns the number of tokens of the piece text[i:end].
func (c *counter) piece(text []byte, i, end int) int {
	n := end - i
	if n <= 7 {
		var key uint64
		if i+8 <= len(text) {
			key = shortKey(load(text[i:i+8]), n)
		} else {
			key = shortKey(load(text[i:end]), n)
		}
		if c.short.find(key) >= 0 {
			return 1
		}
		return c.remembered(text[i:end], middleKey{key, 0})
	}
	if n <= 15 {
		key := keyOf8(load(text[i:i+8]), load(text[end-8:end]), n)
		if c.middle.find(key) >= 0 {
			return 1
		}
		return c.remembered(text[i:end], key)
	}
	if n <= maxToken {
		if _, ok := c.long[string(text[i:end])]; ok {
			return 1
		}
	}
	return c.merged(text[i:end])
}

// remembered is merged for a piece of at most 15 bytes, all of them in key.
func (c *counter) remembered(piece []byte, key middleKey) int {
	slot := &c.pieces[key.mix()>>(64-pieceBits)]
	if slot.key == key {
		return slot.count
	}
	n := c.merged(piece)
	*slot = pieceSlot{key, n}
	return n
}

// merged returns the number of tokens of a piece that is not one token.
func (c *counter) merged(piece []byte) int {
	n := 0
	c.merge(piece, func(tokens []uint32) { n += len(tokens) })
	return n
}

// fits is compatible with a memory.
func (c *counter) fits(left, right uint32) bool {
	key := pairKey(left, right)
	slot := &c.pairsSeen[mix(key+1)>>(64-pairBits)]
	if seen := *slot; seen>>1 == key+1 {
		return seen&1 != 0
	}
	ok := c.compatible(left, right)
	*slot = (key + 1) << 1
	if ok {
		*slot |= 1
	}
	return ok
}
