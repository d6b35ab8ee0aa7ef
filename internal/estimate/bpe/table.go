package bpe

import (
	"encoding/binary"
	"math/bits"
)

// mix spreads a key over 64 bits; the high ones are the best.
func mix(key uint64) uint64 { return key * 0x9e3779b97f4a7c15 }

// slotBits is the size of an open-addressing table of n entries that is at
// most half full, as a binary logarithm.
func slotBits(n int) int { return max(4, bits.Len(uint(2*n-1))) }

// shortTable holds the tokens of up to seven bytes: the bytes and the length
// make one key.
type shortTable struct {
	shift int
	keys  []uint64
	ids   []uint32
}

// shortKey is the key of n ≤ 7 bytes that are the low ones of word.
func shortKey(word uint64, n int) uint64 {
	return word&(1<<(8*n)-1) | uint64(n)<<56
}

// load reads up to eight bytes, the first one lowest.
func load(s []byte) uint64 {
	if len(s) >= 8 {
		return binary.LittleEndian.Uint64(s)
	}
	var w uint64
	for i, b := range s {
		w |= uint64(b) << (8 * i)
	}
	return w
}

func newShortTable(n int) shortTable {
	b := slotBits(n)
	return shortTable{shift: 64 - b, keys: make([]uint64, 1<<b), ids: make([]uint32, 1<<b)}
}

func (t *shortTable) put(key uint64, id uint32) {
	i := int(mix(key) >> t.shift)
	for t.keys[i] != 0 {
		i = (i + 1) & (len(t.keys) - 1)
	}
	t.keys[i], t.ids[i] = key, id
}

// find returns the slot of key, or -1.
func (t *shortTable) find(key uint64) int {
	keys := t.keys
	for i := int(mix(key) >> t.shift); ; i++ {
		i &= len(keys) - 1
		switch keys[i] {
		case key:
			return i
		case 0:
			return -1
		}
	}
}

// middleTable holds the tokens of 8 to 15 bytes: the first eight make one half
// of the key, the others and the length the other half.
type middleTable struct {
	shift int
	keys  []middleKey
	ids   []uint32
}

// middleKey is never zero: it has the length in it.
type middleKey struct{ lo, hi uint64 }

// keyOf8 is the key of n bytes, 8 to 15, of which first and last are the first
// and the last eight.
func keyOf8(first, last uint64, n int) middleKey {
	return middleKey{first, last>>(8*(16-n)) | uint64(n)<<56}
}

func (k middleKey) mix() uint64 {
	h, l := bits.Mul64(k.lo^0xa0761d6478bd642f, k.hi^0xe7037ed1a0b428db)
	return mix(h ^ l)
}

func newMiddleTable(n int) middleTable {
	b := slotBits(n)
	return middleTable{shift: 64 - b, keys: make([]middleKey, 1<<b), ids: make([]uint32, 1<<b)}
}

func (t *middleTable) put(k middleKey, id uint32) {
	i := int(k.mix() >> t.shift)
	for t.keys[i] != (middleKey{}) {
		i = (i + 1) & (len(t.keys) - 1)
	}
	t.keys[i], t.ids[i] = k, id
}

// find returns the slot of k, or -1.
func (t *middleTable) find(k middleKey) int {
	keys := t.keys
	for i := int(k.mix() >> t.shift); ; i++ {
		i &= len(keys) - 1
		switch keys[i] {
		case k:
			return i
		case middleKey{}:
			return -1
		}
	}
}

// pairTable holds which two tokens merge into which third, behind a filter
// that answers most questions for pairs that do not.
type pairTable struct {
	shift  int
	slots  []uint64 // left, right and merged, tokenBits each; 0: free
	filter []uint64
}

const (
	tokenBits  = 18
	tokenMask  = 1<<tokenBits - 1
	filterBits = 22 // of the filter's size in bits: 512 KB
)

func newPairTable(n int) pairTable {
	b := slotBits(n)
	return pairTable{shift: 64 - b, slots: make([]uint64, 1<<b), filter: make([]uint64, 1<<(filterBits-6))}
}

func pairKey(a, b uint32) uint64 { return uint64(a)<<tokenBits | uint64(b) }

func (t *pairTable) put(a, b, merged uint32) {
	key := pairKey(a, b)
	h := mix(key + 1)
	t.filter[h>>(64-filterBits+6)] |= 1 << (h >> (64 - filterBits) & 63)
	i := int(h >> t.shift)
	for t.slots[i] != 0 {
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i] = key<<tokenBits | uint64(merged)
}

// merge returns what a and b merge into, or none.
func (t *pairTable) merge(a, b uint32) uint32 {
	key := pairKey(a, b)
	h := mix(key + 1)
	if t.filter[h>>(64-filterBits+6)]>>(h>>(64-filterBits)&63)&1 == 0 {
		return none
	}
	slots := t.slots
	for i := int(h >> t.shift); ; i++ {
		i &= len(slots) - 1
		switch s := slots[i]; {
		case s>>tokenBits == key && s != 0:
			return uint32(s & tokenMask)
		case s == 0:
			return none
		}
	}
}
