package proxy

import (
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"llmgw/internal/budget"
)

// maxValues is how many users or addresses of one limit have a counter of their
// own, by what one instance has seen; the others share one. Anybody can make up
// users: without a bound they would fill the store.
const maxValues = 100_000

// others is the value of the counter that the rest share. A user of that name
// shares it too, which only makes it stricter.
const others = "*"

// values remembers which users and addresses have counters of their own: those
// seen in this period of the limit or in the one before, since an older counter
// has expired.
type values struct {
	seed maphash.Seed
	log  *slog.Logger
	most int

	mu sync.Mutex
	of map[budget.CounterID]*population
}

// population are the values of one limit, as hashes, by when they were last seen.
type population struct {
	began       time.Time // of the period
	now, before map[uint64]struct{}
	told        bool
}

func newValues(log *slog.Logger, most int) *values {
	return &values{seed: maphash.MakeSeed(), log: log, most: most, of: map[budget.CounterID]*population{}}
}

// bound puts those lines of users and addresses that are too many on the counter
// of the others.
func (v *values) bound(lines []budget.Line) {
	for i := range lines {
		if s := lines[i].Limit.Scope; s == budget.User || s == budget.IP {
			lines[i].Value = v.admit(lines[i].Limit, lines[i].Value, time.Now())
		}
	}
}

// look does to lines what bound would, and makes no counter anybody's.
func (v *values) look(lines []budget.Line) {
	for i := range lines {
		if s := lines[i].Limit.Scope; s == budget.User || s == budget.IP {
			lines[i].Value = v.meets(lines[i].Limit, lines[i].Value, time.Now())
		}
	}
}

// meets returns what admit would.
func (v *values) meets(l *budget.Limit, value string, now time.Time) string {
	hash := maphash.String(v.seed, value)
	v.mu.Lock()
	defer v.mu.Unlock()
	current, before := map[uint64]struct{}(nil), map[uint64]struct{}(nil)
	if p := v.of[budget.CounterOf(l, "")]; p != nil {
		current, before = p.at(now, lengthOf(l))
	}
	_, is := current[hash]
	_, was := before[hash]
	if is || was || len(current)+len(before) < v.most {
		return value
	}
	return others
}

// admit returns value if it may have a counter of its own, else others.
func (v *values) admit(l *budget.Limit, value string, now time.Time) string {
	hash := maphash.String(v.seed, value)
	v.mu.Lock()
	defer v.mu.Unlock()
	of := budget.CounterOf(l, "")
	p := v.of[of]
	if p == nil {
		p = &population{began: now, now: map[uint64]struct{}{}}
		v.of[of] = p
	}
	p.turn(now, lengthOf(l))
	if _, ok := p.now[hash]; ok {
		return value
	}
	if _, ok := p.before[hash]; ok {
		delete(p.before, hash)
	} else if len(p.now)+len(p.before) >= v.most {
		if !p.told {
			p.told = true
			v.log.Warn("a limit has met more users or addresses than it keeps counters for: new ones share one", "limit", l.By(), "counters", v.most)
		}
		return others
	}
	p.now[hash] = struct{}{}
	return value
}

// turn begins a new period if the last one is over.
func (p *population) turn(now time.Time, length time.Duration) {
	if now.Sub(p.began) < length {
		return
	}
	_, p.before = p.at(now, length)
	p.began, p.now, p.told = now, map[uint64]struct{}{}, false
}

// at are those seen in the period that now is in, and in the one before.
func (p *population) at(now time.Time, length time.Duration) (current, before map[uint64]struct{}) {
	switch past := now.Sub(p.began); {
	case past < length:
		return p.now, p.before
	case past < 2*length:
		return nil, p.now
	default:
		return nil, nil
	}
}

// lengthOf is about how long an unused counter of l is kept.
func lengthOf(l *budget.Limit) time.Duration {
	const day = 24 * time.Hour
	switch l.Period {
	case budget.Day:
		return day
	case budget.Week:
		return 7 * day
	case budget.Month:
		return 31 * day
	case budget.Quarter:
		return 92 * day
	case budget.Year:
		return 366 * day
	default:
		return max(time.Minute, l.Period.Length())
	}
}
