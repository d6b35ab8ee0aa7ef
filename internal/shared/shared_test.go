package shared

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"llmgw/internal/redistest"
)

// store is what both kinds have in common.
type store interface {
	Fields(ctx context.Context, name string) (map[string]string, error)
	FieldsOf(ctx context.Context, names []string) ([]map[string]string, error)
	Set(ctx context.Context, name, field, value string) error
	SetAll(ctx context.Context, name string, fields map[string]string) error
	Swap(ctx context.Context, name, field, old, value string) (bool, error)
	SetFor(ctx context.Context, name string, fields map[string]string, ttl time.Duration) error
	SetOnce(ctx context.Context, name, field, value string) (string, error)
	Delete(ctx context.Context, name, field string) error
	AddOnce(ctx context.Context, name, writer string, batch int64, deltas map[string]int64, ttl time.Duration) error
}

var (
	_ store = (*Memory)(nil)
	_ store = (*Redis)(nil)
)

// overBoth runs a test over a fresh store of each kind.
func overBoth(t *testing.T, test func(t *testing.T, s store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, new(Memory)) })
	t.Run("redis", func(t *testing.T) { test(t, NewRedis(client(t), "test")) })
}

func client(t *testing.T) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func fields(t *testing.T, s store, name string) map[string]string {
	t.Helper()
	got, err := s.Fields(t.Context(), name)
	if err != nil {
		t.Fatalf("Fields(%q): %v", name, err)
	}
	return got
}

func want(t *testing.T, s store, name string, want map[string]string) {
	t.Helper()
	if got := fields(t, s, name); !maps.Equal(got, want) {
		t.Errorf("%s is %q, want %q", name, got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFieldsAreSetReadAndDeleted(t *testing.T) {
	overBoth(t, func(t *testing.T, s store) {
		ctx := t.Context()
		want(t, s, "blocks", map[string]string{})
		must(t, s.Set(ctx, "blocks", "b1", `{"scope":"team"}`))
		must(t, s.Set(ctx, "blocks", "b2", "\x01\xff odd \n bytes"))
		must(t, s.Set(ctx, "blocks", "b1", "again"))
		must(t, s.Set(ctx, "mode", "mode", "shadow"))
		want(t, s, "blocks", map[string]string{"b1": "again", "b2": "\x01\xff odd \n bytes"})
		must(t, s.Delete(ctx, "blocks", "b1"))
		must(t, s.Delete(ctx, "blocks", "never was"))
		must(t, s.Delete(ctx, "no map", "at all"))
		want(t, s, "blocks", map[string]string{"b2": "\x01\xff odd \n bytes"})
		want(t, s, "mode", map[string]string{"mode": "shadow"})
	})
}

func TestTheFirstValueOfAFieldStays(t *testing.T) {
	overBoth(t, func(t *testing.T, s store) {
		must(t, s.SetFor(t.Context(), "r", map[string]string{"meta": "m", "until": "1"}, time.Hour))
		for _, value := range []string{"first", "second"} {
			got, err := s.SetOnce(t.Context(), "r", "end", value)
			if must(t, err); got != "first" {
				t.Errorf("after %q: got %q, want the first", value, got)
			}
		}
		must(t, s.SetFor(t.Context(), "r", map[string]string{"until": "2"}, time.Hour))
		want(t, s, "r", map[string]string{"meta": "m", "until": "2", "end": "first"})
	})
}

func TestWhatIsReadIsTheReadersOwn(t *testing.T) {
	overBoth(t, func(t *testing.T, s store) {
		must(t, s.Set(t.Context(), "a", "x", "1"))
		fields(t, s, "a")["x"] = "changed"
		want(t, s, "a", map[string]string{"x": "1"})
	})
}

func TestManyMapsAreReadInTheirOrder(t *testing.T) {
	overBoth(t, func(t *testing.T, s store) {
		var names []string
		for i := range readsAtOnce + 7 {
			name := fmt.Sprintf("m%d", i)
			names = append(names, name)
			if i%3 == 0 {
				must(t, s.Set(t.Context(), name, "i", fmt.Sprint(i)))
			}
		}
		got, err := s.FieldsOf(t.Context(), names)
		must(t, err)
		if len(got) != len(names) {
			t.Fatalf("%d maps, want %d", len(got), len(names))
		}
		for i, fields := range got {
			want := map[string]string{}
			if i%3 == 0 {
				want["i"] = fmt.Sprint(i)
			}
			if !maps.Equal(fields, want) {
				t.Errorf("map %d is %q, want %q", i, fields, want)
			}
		}
		none, err := s.FieldsOf(t.Context(), nil)
		if err != nil || len(none) != 0 {
			t.Errorf("no names give %q, %v", none, err)
		}
	})
}

func TestNumbersAddUp(t *testing.T) {
	overBoth(t, func(t *testing.T, s store) {
		ctx := t.Context()
		must(t, s.AddOnce(ctx, "n", "w", 1, map[string]int64{"a": 5, "b": -3}, 0))
		must(t, s.AddOnce(ctx, "n", "w", 2, map[string]int64{"a": 1 << 60, "c": 0}, time.Hour))
		must(t, s.AddOnce(ctx, "n", "w", 3, nil, 0))
		want(t, s, "n", map[string]string{"a": "1152921504606846981", "b": "-3", "c": "0"})
	})
}

func TestAnAdditionThatCannotBeDoneChangesNothing(t *testing.T) {
	overBoth(t, func(t *testing.T, s store) {
		ctx := t.Context()
		must(t, s.Set(ctx, "n", "text", "hello"))
		must(t, s.AddOnce(ctx, "n", "other", 1, map[string]int64{"full": math.MaxInt64, "a": 1, "b": -7}, 0))
		before := fields(t, s, "n")
		for _, bad := range []map[string]int64{
			{"a": 1, "b": -2, "new": 3, "text": 1},
			{"a": 1, "b": 5, "full": 1},
			{"text": 0},
		} {
			if err := s.AddOnce(ctx, "n", "w", 1, bad, 0); !errors.Is(err, ErrNotNumber) {
				t.Errorf("%v: error %v, want ErrNotNumber", bad, err)
			}
		}
		want(t, s, "n", before)
		must(t, s.AddOnce(ctx, "n", "w", 1, map[string]int64{"a": 10}, 0))
		if got := fields(t, s, "n")["a"]; got != "11" {
			t.Errorf("a is %s, want 11: a batch that failed counts as not sent", got)
		}
	})
}

func TestABatchIsAddedOnce(t *testing.T) {
	overBoth(t, func(t *testing.T, s store) {
		for _, step := range []struct {
			what   string
			name   string
			writer string
			batch  int64
			want   string // of field n in map m
		}{
			{"the first", "m", "gw1", 1, "1"},
			{"the first again: its answer was lost", "m", "gw1", 1, "1"},
			{"the third; the second went elsewhere", "m", "gw1", 3, "2"},
			{"the second, delayed", "m", "gw1", 2, "2"},
			{"another writer's first", "m", "gw2", 1, "3"},
			{"into another map", "other", "gw1", 3, "3"},
			{"a large number", "m", "gw1", 1<<53 - 2, "4"},
			{"the next to it", "m", "gw1", 1<<53 - 1, "5"},
			{"which is known", "m", "gw1", 1<<53 - 1, "5"},
		} {
			must(t, s.AddOnce(t.Context(), step.name, step.writer, step.batch, map[string]int64{"n": 1}, time.Hour))
			if got := fields(t, s, "m")["n"]; got != step.want {
				t.Errorf("%s: n is %s, want %s", step.what, got, step.want)
			}
		}
		want(t, s, "m", map[string]string{"n": "5"})
	})
}

func TestConcurrentAdditionsLoseNothing(t *testing.T) {
	overBoth(t, func(t *testing.T, s store) {
		const writers, each = 8, 50
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range each {
					batch := int64(i + 1)
					for range 2 { // each is sent twice
						if err := s.AddOnce(t.Context(), "m", fmt.Sprint(w), batch, map[string]int64{"n": 2, "m": -1}, time.Hour); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		all.Wait()
		want(t, s, "m", map[string]string{"n": fmt.Sprint(2 * writers * each), "m": fmt.Sprint(-writers * each)})
	})
}

func TestCallsHonourTheirContext(t *testing.T) {
	overBoth(t, func(t *testing.T, s store) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, errFields := s.Fields(ctx, "a")
		_, errFieldsOf := s.FieldsOf(ctx, []string{"a"})
		for what, err := range map[string]error{
			"Fields": errFields, "FieldsOf": errFieldsOf,
			"Set": s.Set(ctx, "a", "f", "v"), "Delete": s.Delete(ctx, "a", "f"),
			"AddOnce": s.AddOnce(ctx, "a", "w", 1, map[string]int64{"n": 1}, 0),
		} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: error %v, want context.Canceled", what, err)
			}
		}
		want(t, s, "a", map[string]string{})
	})
}

func TestMemoryForgetsWhatExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(Memory)
		must(t, m.AddOnce(t.Context(), "minute", "w", 1, map[string]int64{"n": 1}, time.Minute))
		must(t, m.Set(t.Context(), "kept", "f", "v"))
		time.Sleep(59 * time.Second)
		must(t, m.AddOnce(t.Context(), "minute", "w", 2, map[string]int64{"n": 1}, time.Minute))
		time.Sleep(59 * time.Second)
		want(t, m, "minute", map[string]string{"n": "2"})
		time.Sleep(time.Second)
		want(t, m, "minute", map[string]string{})
		for i := range 10 * sweepEvery {
			must(t, m.AddOnce(t.Context(), fmt.Sprint(i), "w", 1, map[string]int64{"n": 1}, time.Millisecond))
			time.Sleep(time.Millisecond)
		}
		if len(m.maps) > sweepEvery+1 {
			t.Errorf("%d maps are held, all but one expired", len(m.maps))
		}
		want(t, m, "kept", map[string]string{"f": "v"})
	})
}

func TestRedisExpiresWhatIsAddedTo(t *testing.T) {
	c := client(t)
	s := NewRedis(c, "p")
	must(t, s.AddOnce(t.Context(), "m", "w", 1, map[string]int64{"n": 1}, time.Hour))
	if got := c.PTTL(t.Context(), "p:shared:m").Val(); got <= 59*time.Minute || got > time.Hour {
		t.Errorf("it lives for %v, want an hour", got)
	}
	must(t, s.AddOnce(t.Context(), "m", "w", 2, map[string]int64{"n": 1}, 0))
	if got := c.PTTL(t.Context(), "p:shared:m").Val(); got <= 59*time.Minute {
		t.Errorf("it lives for %v, an addition without time to live changed it", got)
	}
	must(t, s.Set(t.Context(), "blocks", "b", "v"))
	if got := c.TTL(t.Context(), "p:shared:blocks").Val(); got != -1 {
		t.Errorf("what is set expires in %v", got)
	}
}

func TestTwoPrefixesShareNothing(t *testing.T) {
	c := client(t)
	a, b := NewRedis(c, "a"), NewRedis(c, "b")
	must(t, a.Set(t.Context(), "m", "f", "v"))
	want(t, b, "m", map[string]string{})
	want(t, NewRedis(c, "a"), "m", map[string]string{"f": "v"})
}

func TestAStoppedRedisIsAnErrorInTime(t *testing.T) {
	server := redistest.Start(t)
	c := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	s := NewRedis(c, "p")
	must(t, s.AddOnce(t.Context(), "m", "w", 1, map[string]int64{"n": 1}, 0))
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.AddOnce(ctx, "m", "w", 2, map[string]int64{"n": 1}, 0); err == nil {
		t.Error("a stopped Redis has added something")
	}
	server.Resume()
	must(t, s.AddOnce(t.Context(), "m", "w", 2, map[string]int64{"n": 1}, 0))
	want(t, s, "m", map[string]string{"n": "2"})
}
