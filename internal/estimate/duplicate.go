package estimate

import "llmgw/internal/jsonscan"

// Of members of the same name providers read the last. Objects seldom have any,
// so a few bits tell those apart that surely have none; and parts and messages
// seldom have more than a dozen members, so that of objects with very many all
// count.

const mostNames = 1000

// nameSet notes the names of an object's members.
type nameSet struct {
	seen  uint64
	twice bool // perhaps one was there twice
	n     int
}

func (s *nameSet) add(name []byte) {
	s.n++
	bit := uint64(1) << (stringKey(name) >> 58)
	s.twice = s.twice || s.seen&bit != 0
	s.seen |= bit
}

// last returns where the last member of each name of raw stands; nil if surely
// no name is there twice, or all count.
func (s *nameSet) last(raw []byte) lastOf {
	if !s.twice || s.n > mostNames {
		return nil
	}
	last := lastOf{}
	for m := jsonscan.MembersAt(raw, 0); m.Next(); {
		last[string(m.Key())] = m.Value().Start
	}
	return last
}

// lastOf leads from the names of members to where the last value starts.
type lastOf map[string]int

// hides tells whether another member of m's name follows.
func (l lastOf) hides(m *jsonscan.Members) bool {
	return l != nil && l[string(m.Key())] != m.Value().Start
}
