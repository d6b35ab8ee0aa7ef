package changes

import (
	"maps"
	"slices"
	"time"
)

// requestsKept is how long an Idempotency-Key is remembered.
const requestsKept = 24 * time.Hour

// State is what all entries up to one add up to. It never changes once it was
// published.
type State struct {
	keys      map[string]Key
	overrides map[Limit]Override // the last one, also if it is over
	credits   map[Limit][]Credit // of which some may be over
	removed   map[Limit]int64    // the version since which an override is gone
	requests  map[string]Credit  // by Credit.Request
	audit     []Entry
}

func newState() *State {
	return &State{
		keys: map[string]Key{}, overrides: map[Limit]Override{}, credits: map[Limit][]Credit{},
		removed: map[Limit]int64{}, requests: map[string]Credit{},
	}
}

func (s *State) clone() *State {
	return &State{
		keys: maps.Clone(s.keys), overrides: maps.Clone(s.overrides), credits: maps.Clone(s.credits),
		removed: maps.Clone(s.removed), requests: maps.Clone(s.requests), audit: s.audit,
	}
}

func (s *State) apply(e Entry) {
	switch e.Action {
	case KeyCreated, KeyChanged, KeyRotated:
		if e.Key != nil {
			s.keys[e.Key.ID] = *e.Key
		}
	case KeyDeleted:
		delete(s.keys, e.Target)
	case OverrideSet:
		if e.Override != nil {
			s.overrides[e.Override.Limit] = *e.Override
		}
	case OverrideRemoved:
		if e.Limit != nil {
			delete(s.overrides, *e.Limit)
			s.removed[*e.Limit] = e.Version
		}
	case CreditGiven:
		s.addCredit(e.Credit)
	}
	s.audit = append(s.audit, e)
}

func (s *State) addCredit(c *Credit) {
	if c == nil {
		return
	}
	s.credits[c.Limit] = append(slices.Clone(s.credits[c.Limit]), *c)
	if c.Request != "" {
		s.requests[c.Request] = *c
	}
}

// Keys lists the keys that were made, also expired ones, by their ids.
func (s *State) Keys() []Key {
	list := make([]Key, 0, len(s.keys))
	for _, id := range slices.Sorted(maps.Keys(s.keys)) {
		list = append(list, s.keys[id])
	}
	return list
}

// Key returns the key with this id, and whether there is one.
func (s *State) Key(id string) (Key, bool) {
	k, ok := s.keys[id]
	return k, ok
}

// Requested returns the credit that the request with this hash gave, and whether
// there is one that is remembered at now.
func (s *State) Requested(request string, now time.Time) (Credit, bool) {
	c, ok := s.requests[request]
	return c, ok && now.Sub(c.From) < requestsKept
}

// has reports whether there is an entry with this id.
func (s *State) has(id string) bool {
	return slices.ContainsFunc(s.audit, func(e Entry) bool { return e.ID == id })
}

// Audit lists all entries, the oldest first. It must not be changed.
func (s *State) Audit() []Entry { return s.audit }

// Next is when something of the State changes by itself after now: a key or a
// former secret expires, an override or a credit ends. Zero: nothing does.
func (s *State) Next(now time.Time) time.Time {
	var next time.Time
	at := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, k := range s.keys {
		if k.ExpiresAt != nil {
			at(*k.ExpiresAt)
		}
		for _, f := range k.Former {
			at(f.Until)
		}
	}
	for _, o := range s.overrides {
		at(o.Until)
	}
	for _, list := range s.credits {
		for _, c := range list {
			at(c.ExpiresAt)
		}
	}
	return next
}
