package tenant

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// blockIndex is the list as Match needs it. It never changes.
type blockIndex struct {
	all    []Block // by id
	byName map[blocked][]*Block
	byNet  map[netip.Prefix][]*Block
	nets   []int // the lengths of networks in byNet; of IPv6 plus 128
}

// blocked is who is kept out by name.
type blocked struct {
	scope BlockScope
	value string
}

func newBlockIndex(blocks []Block) *blockIndex {
	x := &blockIndex{all: blocks, byName: map[blocked][]*Block{}, byNet: map[netip.Prefix][]*Block{}}
	slices.SortFunc(x.all, func(a, b Block) int { return strings.Compare(a.ID, b.ID) })
	for i := range x.all {
		b := &x.all[i]
		network, isNetwork := parseNetwork(b.Value)
		if b.Scope != BlockIP || !isNetwork {
			who := blocked{b.Scope, b.Value}
			x.byName[who] = append(x.byName[who], b)
			continue
		}
		x.byNet[network] = append(x.byNet[network], b)
		if length := netLength(network); !slices.Contains(x.nets, length) {
			x.nets = append(x.nets, length)
		}
	}
	return x
}

// netLength tells networks apart by family and length.
func netLength(p netip.Prefix) int {
	if p.Addr().Is4() {
		return p.Bits()
	}
	return 129 + p.Bits()
}

func (x *blockIndex) match(c Caller, now time.Time) (Block, bool) {
	if c.Key != nil {
		if b := inForce(x.byName[blocked{BlockKey, c.Key.ID}], now); b != nil {
			return *b, true
		}
		if c.Key.Team != nil {
			if b := inForce(x.byName[blocked{BlockTeam, c.Key.Team.Name}], now); b != nil {
				return *b, true
			}
		}
	}
	if b := inForce(x.byName[blocked{BlockUser, c.User}], now); b != nil {
		return *b, true
	}
	for _, length := range x.nets {
		if length > 128 == c.IP.Is4() {
			continue // of the other family
		}
		network, err := c.IP.Prefix(length % 129)
		if err != nil {
			continue // no address at all
		}
		if b := inForce(x.byNet[network], now); b != nil {
			return *b, true
		}
	}
	return Block{}, false
}

// inForce returns the first of blocks that is not over, or nil.
func inForce(blocks []*Block, now time.Time) *Block {
	for _, b := range blocks {
		if !b.Expired(now) {
			return b
		}
	}
	return nil
}
