package bpe

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
)

// vocabulary is what the counters of one encoding share. It is immutable.
type vocabulary struct {
	short  shortTable
	middle middleTable
	long   map[string]uint32 // above 15 bytes

	single  [256]uint32 // the tokens of one byte
	trie    *trie
	lengths []uint8
	// shorter is each token's longest proper prefix that is a token, or none.
	shorter []uint32
	// parts are the two tokens that merge into each token, twice the token
	// itself if it is one byte.
	parts []parts
	pairs pairTable
}

type parts struct{ left, right uint32 }

// maxToken is the most bytes that a token may have.
const maxToken = 255

// parseRanks reads the lines "base64 rank" of a .tiktoken file; the rank is
// the index in the result. Ranks that are missing (special tokens) are empty.
func parseRanks(text []byte) ([][]byte, error) {
	blob := make([]byte, 0, len(text))
	var tokens [][]byte
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		encoded, rank, _ := bytes.Cut(line, []byte(" "))
		id, err := strconv.Atoi(string(rank))
		if err != nil || id < 0 || id > tokenMask {
			return nil, fmt.Errorf("line %q: bad rank", line)
		}
		start := len(blob)
		blob, err = base64.StdEncoding.AppendDecode(blob, encoded)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		if n := len(blob) - start; n == 0 || n > maxToken {
			return nil, fmt.Errorf("line %q: %d bytes", line, n)
		}
		for len(tokens) <= id {
			tokens = append(tokens, nil)
		}
		tokens[id] = blob[start:len(blob):len(blob)]
	}
	return tokens, nil
}

func newVocabulary(tokens [][]byte) (*vocabulary, error) {
	v := &vocabulary{
		long:    map[string]uint32{},
		lengths: make([]uint8, len(tokens)),
		parts:   make([]parts, len(tokens)),
		pairs:   newPairTable(len(tokens)),
	}
	v.index(tokens)
	for b := range v.single {
		v.single[b] = v.find([]byte{byte(b)})
		if v.single[b] > 255 {
			return nil, fmt.Errorf("the byte %#x is none of the first 256 tokens", b)
		}
	}
	v.trie, v.shorter = newTrie(tokens)
	for id := range tokens {
		if !v.splitToken(uint32(id), tokens[id]) {
			return nil, errors.New("a token that no merges lead to: " + strconv.Quote(string(tokens[id])))
		}
	}
	return v, nil
}

// index fills the tables that find a whole piece.
func (v *vocabulary) index(tokens [][]byte) {
	shorts, middles := 0, 0
	for _, t := range tokens {
		switch {
		case len(t) <= 7:
			shorts++
		case len(t) <= 15:
			middles++
		}
	}
	v.short, v.middle = newShortTable(shorts), newMiddleTable(middles)
	for id, t := range tokens {
		n := len(t)
		v.lengths[id] = uint8(n)
		switch {
		case n == 0:
		case n <= 7:
			v.short.put(shortKey(load(t), n), uint32(id))
		case n <= 15:
			v.middle.put(keyOf8(load(t), load(t[n-8:]), n), uint32(id))
		default:
			v.long[string(t)] = uint32(id)
		}
	}
}

// find returns the token that s is, or none.
func (v *vocabulary) find(s []byte) uint32 {
	n := len(s)
	switch {
	case n == 0:
		return none
	case n <= 7:
		if i := v.short.find(shortKey(load(s), n)); i >= 0 {
			return v.short.ids[i]
		}
		return none
	case n <= 15:
		if i := v.middle.find(keyOf8(load(s), load(s[n-8:]), n)); i >= 0 {
			return v.middle.ids[i]
		}
		return none
	}
	if n > maxToken {
		return none
	}
	if id, ok := v.long[string(s)]; ok {
		return id
	}
	return none
}

// splitToken notes which two tokens merge into id: a prefix and the rest, both
// of lower rank, that merging would have left side by side. Tokens must come in
// the order of their ranks. It returns false if there are no such two.
func (v *vocabulary) splitToken(id uint32, bytes []byte) bool {
	if len(bytes) <= 1 {
		v.parts[id] = parts{id, id}
		return true
	}
	for left := v.shorter[id]; left != none; left = v.shorter[left] {
		if left >= id {
			continue
		}
		right := v.find(bytes[v.lengths[left]:])
		if right == none || right >= id || !v.compatible(left, right) {
			continue
		}
		v.parts[id] = parts{left, right}
		v.pairs.put(left, right, id)
		return true
	}
	return false
}

// compatible tells whether merging leaves left and right side by side: whether
// no merge across their boundary comes before the merges that made them. It
// undoes the merges of the two from the last one on, and looks at each step
// whether the tokens that then meet would have merged first. Where ranks are
// equal, the place further left comes first.
func (v *vocabulary) compatible(left, right uint32) bool {
	before := none // merges across the boundary of a rank below this come first
	for {
		if m := v.pairs.merge(left, right); m < before {
			return false
		}
		switch last := max(left, right); {
		case last <= 255: // two bytes, nothing to undo
			return true
		case left > right:
			before, left = left, v.parts[left].right
		default:
			before, right = right+1, v.parts[right].left
		}
	}
}
