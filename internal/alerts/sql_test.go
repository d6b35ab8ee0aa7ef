package alerts

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"llmgw/internal/database"
	"llmgw/internal/pgtest"
	"llmgw/internal/redistest"
	"llmgw/internal/shared"
)

// stores are an empty store of every kind.
func stores(t *testing.T) map[string]Store {
	t.Helper()
	opened := func(c database.Config) Store {
		db, err := database.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		return NewSQL(db)
	}
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
	t.Cleanup(func() { _ = client.Close() })
	return map[string]Store{
		"memory":   new(shared.Memory),
		"redis":    shared.NewRedis(client, "test"),
		"sqlite":   opened(database.Config{Kind: database.SQLite, Path: filepath.Join(t.TempDir(), "alerts.db")}),
		"postgres": opened(database.Config{Kind: database.Postgres, URL: pgtest.Start(t).Database(t, "alerts")}),
	}
}

func TestEveryStoreSwapsWhatIsThereAlone(t *testing.T) {
	for kind, s := range stores(t) {
		for i, step := range []struct {
			old, value string
			ok         bool
			left       string
		}{
			{"x", "a", false, ""}, {"", "a", true, "a"}, {"", "b", false, "a"}, {"b", "c", false, "a"}, {"a", "c", true, "c"},
			{"a", "", false, "c"}, {"c", "", true, ""}, {"", "d", true, "d"},
		} {
			ok, err := s.Swap(t.Context(), outboxMap, "field", step.old, step.value)
			fields, err2 := s.Fields(t.Context(), outboxMap)
			if err != nil || err2 != nil || ok != step.ok || fields["field"] != step.left {
				t.Errorf("%s, step %d: got %t with %v, want %t with %q (%v, %v)", kind, i, ok, fields, step.ok, step.left, err, err2)
			}
		}
		var won atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if ok, err := s.Swap(t.Context(), outboxMap, "raced", "", "mine"); err != nil {
					t.Error(err)
				} else if ok {
					won.Add(1)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Errorf("%s: %d were the first", kind, won.Load())
		}
	}
}

func TestAlertsAreToldOnceWithEveryStore(t *testing.T) {
	for kind, s := range stores(t) {
		f := newFleet(t, budgetRule(50, 100))
		f.store, f.used = s, 600
		one, two := f.gateway("one"), f.gateway("two")
		for range 2 {
			f.step(one)
			f.step(two)
		}
		f.step(f.gateway("restarted"))
		f.hook.wants(t, kind, 50)
	}
}
