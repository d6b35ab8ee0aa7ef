package shared

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Both stores do the same whatever they are asked for, step by step.
func TestMemoryAndRedisAreTheSame(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	deltas := []int64{0, 1, -1, 7, math.MaxInt64, math.MinInt64 + 1, 1 << 53, -(1 << 53) - 1}

	memory, remote := new(Memory), NewRedis(client(t), "same")
	for step := range 2000 {
		name, field := pick("a", "b"), pick("x", "y", "z")
		var what string
		var do func(s store) error
		switch random.IntN(10) {
		case 0:
			value := pick("12", "-3", "text", "", "9223372036854775807")
			what = fmt.Sprintf("Set(%s, %s, %q)", name, field, value)
			do = func(s store) error { return s.Set(t.Context(), name, field, value) }
		case 1:
			what = fmt.Sprintf("Delete(%s, %s)", name, field)
			do = func(s store) error { return s.Delete(t.Context(), name, field) }
		case 5:
			old, value := pick("12", "text", "", "9"), pick("text", "", "9", "12")
			what = fmt.Sprintf("Swap(%s, %s, %q, %q)", name, field, old, value)
			do = func(s store) error {
				ok, err := s.Swap(t.Context(), name, field, old, value)
				if err == nil && !ok {
					err = errors.New("something else is there")
				}
				return err
			}
		case 6:
			value := pick("12", "more")
			what = fmt.Sprintf("SetAll(%s, %s, n: %q)", name, field, value)
			do = func(s store) error { return s.SetAll(t.Context(), name, map[string]string{field: value, "m": value}) }
		case 2, 3, 4:
			batch, writer, delta := 1+random.Int64N(50), pick("gw1", "gw2"), deltas[random.IntN(len(deltas))]
			what = fmt.Sprintf("AddOnce(%s, %s, %d, %s: %d)", name, writer, batch, field, delta)
			do = func(s store) error {
				return s.AddOnce(t.Context(), name, writer, batch, map[string]int64{field: delta}, time.Hour)
			}
		default:
			// One field is sure to be a number: all or none of both.
			delta, beside := deltas[random.IntN(len(deltas))], random.Int64N(5)
			what = fmt.Sprintf("AddOnce(%s, new, %s: %d, n: %d)", name, field, delta, beside)
			do = func(s store) error {
				return s.AddOnce(t.Context(), name, "new", int64(step+1), map[string]int64{field: delta, "n": beside}, 0)
			}
		}
		got, want := do(memory), do(remote)
		if errors.Is(got, ErrNotNumber) != errors.Is(want, ErrNotNumber) || (got == nil) != (want == nil) {
			t.Fatalf("step %d: %s: memory %v, redis %v", step, what, got, want)
		}
		m, r := fields(t, memory, name), fields(t, remote, name)
		if !maps.Equal(m, r) {
			t.Fatalf("step %d: after %s memory has %q, redis %q", step, what, m, r)
		}
	}
}
