package bpe

// merger encodes as the definition says: merge the two neighbours of the
// lowest rank, the leftmost of equals, until none merge. It takes n log n
// steps whatever the text, and serves where backtracking takes too many.
type merger struct {
	token []uint32 // at the place where it starts
	prev  []int32  // the place of the token before; -1: none
	next  []int32  // the place of the token after; len: none
	rank  []uint32 // of merging the token with the one after, or none
	heap  []uint64 // rank and place; stale where rank has changed since
}

// encode appends the tokens of s to ids.
func (m *merger) encode(v *vocabulary, s []byte, ids []uint32) []uint32 {
	m.start(v, s)
	end := int32(len(s))
	for len(m.heap) > 0 {
		top := m.pop()
		rank, at := uint32(top>>32), int32(uint32(top))
		if m.rank[at] != rank {
			continue
		}
		right := m.next[at]
		after := m.next[right]
		m.token[at], m.next[at] = rank, after
		m.rank[right] = none
		if after < end {
			m.prev[after] = at
		}
		m.offer(v, at, after, end)
		if before := m.prev[at]; before >= 0 {
			m.offer(v, before, at, end)
		}
	}
	for at := int32(0); at < end; at = m.next[at] {
		ids = append(ids, m.token[at])
	}
	return ids
}

// start makes a token of each byte.
func (m *merger) start(v *vocabulary, s []byte) {
	if cap(m.token) < len(s) {
		n := max(len(s), 1024)
		m.token, m.rank = make([]uint32, n), make([]uint32, n)
		m.prev, m.next = make([]int32, n), make([]int32, n)
		m.heap = make([]uint64, 0, 2*n)
	}
	m.token, m.rank = m.token[:len(s)], m.rank[:len(s)]
	m.prev, m.next = m.prev[:len(s)], m.next[:len(s)]
	m.heap = m.heap[:0]
	for i, b := range s {
		m.token[i], m.prev[i], m.next[i], m.rank[i] = v.single[b], int32(i-1), int32(i+1), none
	}
	for i := range int32(len(s)) {
		m.offer(v, i, i+1, int32(len(s)))
	}
}

// offer notes what the tokens at two places, neighbours, merge into.
func (m *merger) offer(v *vocabulary, at, right, end int32) {
	m.rank[at] = none
	if right >= end {
		return
	}
	rank := v.pairs.merge(m.token[at], m.token[right])
	m.rank[at] = rank
	if rank != none {
		m.push(uint64(rank)<<32 | uint64(uint32(at)))
	}
}

// The heap has four children to a node: flatter, and kinder to the cache.

func (m *merger) push(x uint64) {
	m.heap = append(m.heap, x)
	h := m.heap
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 4
		if h[up] <= x {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = x
}

func (m *merger) pop() uint64 {
	h := m.heap
	top, x := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	m.heap = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= len(h) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(h)); c++ {
			if h[c] < h[least] {
				least = c
			}
		}
		if h[least] >= x {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = x
	return top
}
