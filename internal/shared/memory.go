package shared

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strconv"
	"sync"
	"time"
)

// Memory keeps the maps in this process. The zero Memory is empty and ready. It
// is safe for concurrent use.
type Memory struct {
	mu   sync.Mutex
	maps map[string]*table
	adds int // since the last sweep
}

type table struct {
	fields  map[string]string
	batches map[string]int64 // writer → its last batch
	expires time.Time        // zero: never
}

// sweepEvery is after how many additions expired maps are looked for: totals
// are kept by the minute, and nobody asks for most of them again.
const sweepEvery = 256

// Fields returns a copy of the map called name; empty if there is none.
func (m *Memory) Fields(ctx context.Context, name string) (map[string]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.live(name)
	if t == nil {
		return map[string]string{}, nil
	}
	return maps.Clone(t.fields), nil
}

// FieldsOf returns the maps called names, in their order.
func (m *Memory) FieldsOf(ctx context.Context, names []string) ([]map[string]string, error) {
	out := make([]map[string]string, 0, len(names))
	for _, name := range names {
		fields, err := m.Fields(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, fields)
	}
	return out, nil
}

// Set gives a field of the map called name a value.
func (m *Memory) Set(ctx context.Context, name, field, value string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open(name).fields[field] = value
	return nil
}

// SetAll gives fields of the map called name values.
func (m *Memory) SetAll(ctx context.Context, name string, fields map[string]string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.Copy(m.open(name).fields, fields)
	return nil
}

// Swap puts value in the place of old, where "" is no field, and reports whether old
// was there.
func (m *Memory) Swap(ctx context.Context, name, field, old, value string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.open(name)
	if t.fields[field] != old {
		return false, nil
	}
	if value == "" {
		delete(t.fields, field)
	} else {
		t.fields[field] = value
	}
	return true, nil
}

// Delete removes a field; it is no error if there is none.
func (m *Memory) Delete(ctx context.Context, name, field string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.live(name); t != nil {
		delete(t.fields, field)
	}
	return nil
}

// AddOnce adds deltas to the whole numbers in the map called name, all or none; a
// missing field is 0. The map expires ttl after what was last added; 0: never. It
// returns ErrNotNumber if a field is a text. The writer numbers its batches
// upwards from 1 and may send one again: a batch whose number is not above the
// last one that this map took from the writer is not added, and no error.
func (m *Memory) AddOnce(ctx context.Context, name, writer string, batch int64, deltas map[string]int64, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.open(name)
	if batch <= t.batches[writer] {
		return nil
	}
	if err := m.add(t, name, deltas, ttl); err != nil {
		return err
	}
	if t.batches == nil {
		t.batches = make(map[string]int64)
	}
	t.batches[writer] = batch
	return nil
}

func (m *Memory) add(t *table, name string, deltas map[string]int64, ttl time.Duration) error {
	sums := make(map[string]string, len(deltas))
	for field, delta := range deltas {
		var had int64
		if text, ok := t.fields[field]; ok {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("add to %s: field %q: %w", name, field, ErrNotNumber)
			}
			had = n
		}
		if delta > 0 && had > math.MaxInt64-delta || delta < 0 && had < math.MinInt64-delta {
			return fmt.Errorf("add to %s: field %q would overflow: %w", name, field, ErrNotNumber)
		}
		sums[field] = strconv.FormatInt(had+delta, 10)
	}
	maps.Copy(t.fields, sums)
	if ttl > 0 {
		t.expires = time.Now().Add(ttl)
	}
	m.tidy(sweepEvery)
	return nil
}

// tidy drops expired maps, once in so many additions.
func (m *Memory) tidy(every int) {
	if m.adds++; m.adds >= every {
		m.adds = 0
		maps.DeleteFunc(m.maps, func(_ string, t *table) bool { return t.expired() })
	}
}

func (t *table) expired() bool { return !t.expires.IsZero() && !time.Now().Before(t.expires) }

// live returns the map called name, or nil.
func (m *Memory) live(name string) *table {
	t := m.maps[name]
	if t == nil || !t.expired() {
		return t
	}
	delete(m.maps, name)
	return nil
}

func (m *Memory) open(name string) *table {
	if t := m.live(name); t != nil {
		return t
	}
	if m.maps == nil {
		m.maps = make(map[string]*table)
	}
	t := &table{fields: make(map[string]string)}
	m.maps[name] = t
	return t
}
