package changes

import (
	"time"

	"llmgw/internal/budget"
)

// NameOf is how entries name l, of whose counters value is meant; empty: all.
func NameOf(l *budget.Limit, value string) Limit { return Limit{l.Place, l.Name, value} }

// Amount is what a limit grants at a time.
type Amount struct {
	InForce int64
	// Version is that of the last change, or the configuration's if it is newer.
	Version int64
	// Override is what is in force instead of the configured amount; nil: nothing.
	Override *Override
	// Credits are added to it. nil: none.
	Credits []Credit
}

// AmountOf is what name grants at now, of which the configuration says base at
// version.
func (s *State) AmountOf(name Limit, base, version, now int64) Amount {
	a := Amount{InForce: base, Version: max(version, s.removed[name])}
	// since notes that the version v is in force, and from ms on another one.
	passes := func(v int64, ends time.Time) (over bool) {
		a.Version = max(a.Version, v)
		if over = now >= ends.UnixMilli(); over {
			a.Version = max(a.Version, ends.UnixMilli(), v+1)
		}
		return over
	}
	if o, ok := s.overrides[name]; ok && !passes(o.Version, o.Until) {
		a.InForce, a.Override = o.Amount, &o
	}
	for _, c := range s.credits[name] {
		if !passes(c.Version, c.ExpiresAt) {
			a.InForce += c.Amount
			a.Credits = append(a.Credits, c)
		}
	}
	return a
}

// Overrides lists those in force at now, in no order.
func (s *State) Overrides(now time.Time) []Override {
	var list []Override
	for _, o := range s.overrides {
		if now.Before(o.Until) {
			list = append(list, o)
		}
	}
	return list
}

// Credits lists those in force at now, in no order.
func (s *State) Credits(now time.Time) []Credit {
	var list []Credit
	for _, all := range s.credits {
		for _, c := range all {
			if now.Before(c.ExpiresAt) {
				list = append(list, c)
			}
		}
	}
	return list
}

// Apply returns l as it is at now: l itself unless something has changed it. l is
// as the configuration has it.
func (s *State) Apply(l *budget.Limit, now time.Time) *budget.Limit {
	changed := s.with(l, NameOf(l, ""), now)
	if l.Single() {
		return changed
	}
	for _, value := range s.valuesOf(l) {
		one := s.with(changed, NameOf(l, value), now)
		if one == changed {
			continue
		}
		if changed == l {
			c := *l
			changed = (&c).Compile()
		}
		if changed.Values == nil {
			changed.Values = map[string]*budget.Limit{}
		}
		changed.Values[value] = one
	}
	return changed
}

// valuesOf are those of l's counters that have changes of their own.
func (s *State) valuesOf(l *budget.Limit) []string {
	var values []string
	seen := map[string]bool{}
	add := func(n Limit) {
		if n.Place == l.Place && n.Name == l.Name && n.Value != "" && !seen[n.Value] {
			seen[n.Value] = true
			values = append(values, n.Value)
		}
	}
	for n := range s.overrides {
		add(n)
	}
	for n := range s.removed {
		add(n)
	}
	for n := range s.credits {
		add(n)
	}
	return values
}

func (s *State) with(l *budget.Limit, name Limit, now time.Time) *budget.Limit {
	a := s.AmountOf(name, l.Amount, l.Version, now.UnixMilli())
	if a.Version == l.Version {
		return l
	}
	return l.WithAmount(a.InForce, a.Version).Compile()
}
