package bpe

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// none is no token.
const none = ^uint32(0)

// trie finds the longest token at the start of a text. Siblings are
// neighbours, sorted by their byte, and a chain of only children is contiguous.
type trie struct {
	nodes []node
	// pairs is the node after the first two bytes, 0 if there is none.
	pairs []uint32
	// sets hold which children a node of many has.
	sets []byteSet
}

// node is one byte of tokens. Node 0 is the root.
type node struct {
	first uint32 // of its children, or 0
	token uint32 // that ends here, or none
	set   uint32 // 1 + the index in sets, with more than few children; or 0
	label uint8
	more  uint8 // children beside the first
}

const few = 6

// byteSet is a set of bytes that can rank them.
type byteSet struct {
	words [4]uint64
	below [4]uint8 // members in the words before
}

func (s *byteSet) add(b uint8) { s.words[b>>6] |= 1 << (b & 63) }

func (s *byteSet) rankAll() {
	n := 0
	for i, w := range s.words {
		s.below[i] = uint8(n)
		n += bits.OnesCount64(w)
	}
}

// rank returns the number of members below b, and whether b is one.
func (s *byteSet) rank(b uint8) (int, bool) {
	w, bit := s.words[b>>6], uint64(1)<<(b&63)
	return int(s.below[b>>6]) + bits.OnesCount64(w&(bit-1)), w&bit != 0
}

// newTrie builds the trie of all tokens, and for each its longest proper
// prefix that is a token.
func newTrie(tokens [][]byte) (*trie, []uint32) {
	b := trieBuilder{tokens: tokens, shorter: make([]uint32, len(tokens))}
	for id, t := range tokens {
		b.shorter[id] = none
		if len(t) > 0 {
			b.order = append(b.order, keyed{prefixKey(t), uint32(id)})
		}
	}
	slices.SortFunc(b.order, func(x, y keyed) int {
		if x.key != y.key {
			return cmp.Compare(x.key, y.key)
		}
		return slices.Compare(tokens[x.id], tokens[y.id])
	})
	b.t = &trie{nodes: make([]node, 1, 2*len(tokens)), pairs: make([]uint32, 1<<16)}
	b.fill(0, 0, len(b.order), 0, none)
	b.t.indexPairs()
	return b.t, b.shorter
}

// keyed is a token with its first eight bytes.
type keyed struct {
	key uint64
	id  uint32
}

func prefixKey(t []byte) uint64 {
	var head [8]byte
	copy(head[:], t)
	return binary.BigEndian.Uint64(head[:])
}

type trieBuilder struct {
	t       *trie
	tokens  [][]byte
	order   []keyed
	shorter []uint32
}

// fill makes the subtree of node at, whose tokens are order[lo:hi], all with
// the same depth first bytes; above is the longest token among those bytes.
func (b *trieBuilder) fill(at, lo, hi, depth int, above uint32) {
	n := &b.t.nodes[at]
	n.token = none
	if id := b.order[lo].id; len(b.tokens[id]) == depth {
		n.token, b.shorter[id] = id, above
		above = id
		lo++
	}
	if lo == hi {
		return
	}
	first := len(b.t.nodes)
	var set byteSet
	var starts [257]int
	count := 0
	for i := lo; i < hi; i++ {
		c := b.tokens[b.order[i].id][depth]
		if count > 0 && b.t.nodes[first+count-1].label == c {
			continue
		}
		b.t.nodes = append(b.t.nodes, node{label: c})
		set.add(c)
		starts[count] = i
		count++
	}
	starts[count] = hi
	n = &b.t.nodes[at]
	n.first, n.more = uint32(first), uint8(count-1)
	if count > few {
		set.rankAll()
		b.t.sets = append(b.t.sets, set)
		n.set = uint32(len(b.t.sets))
	}
	for c := range count {
		b.fill(first+c, starts[c], starts[c+1], depth+1, above)
	}
}

func (t *trie) indexPairs() {
	for a := range 256 {
		one := t.child(0, uint8(a))
		if one == 0 {
			continue
		}
		for b := range 256 {
			t.pairs[a<<8|b] = t.child(one, uint8(b))
		}
	}
}

// child returns the child of a node by its byte, or 0.
func (t *trie) child(at uint32, b uint8) uint32 {
	n := &t.nodes[at]
	if n.first == 0 {
		return 0
	}
	if n.set != 0 {
		rank, ok := t.sets[n.set-1].rank(b)
		if !ok {
			return 0
		}
		return n.first + uint32(rank)
	}
	for i := n.first; i <= n.first+uint32(n.more); i++ {
		if t.nodes[i].label == b {
			return i
		}
	}
	return 0
}

// longest returns the longest token that s starts with; single are the tokens
// of one byte.
func (t *trie) longest(s []byte, single *[256]uint32) uint32 {
	best := single[s[0]]
	if len(s) < 2 {
		return best
	}
	at := t.pairs[int(s[0])<<8|int(s[1])]
	for i := 2; at != 0; i++ {
		if id := t.nodes[at].token; id != none {
			best = id
		}
		if i >= len(s) {
			break
		}
		at = t.child(at, s[i])
	}
	return best
}
