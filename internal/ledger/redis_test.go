package ledger

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"llmgw/internal/redistest"
	"llmgw/internal/shared"
)

// A stopped Redis takes calls and answers none. When it goes on it does what it
// was asked for, after the callers gave up and while they ask again.
func TestTotalsAreExactAfterRedisWasStopped(t *testing.T) {
	server := redistest.Start(t)
	var ledgers []*Ledger
	for _, name := range []string{"a", "b"} {
		client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = client.Close() })
		l := New(Config{
			Store: shared.NewRedis(client, "test"), Writer: name, FlushEvery: time.Hour,
		})
		ledgers = append(ledgers, l)
	}
	began := time.Now()
	for _, l := range ledgers {
		l.Record(entry("search", "gpt-4o", 0, 0)) // opens the connection
	}
	const rounds, each = 5, 20
	for range rounds {
		for _, l := range ledgers {
			// A call on a connection that is open reaches Redis, though it is stopped.
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range each {
				l.Record(entry("search", "gpt-4o", 7, 3))
			}
		}
		server.Pause()
		for _, l := range ledgers {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if err := l.Flush(ctx); err == nil {
				t.Error("a stopped Redis has answered")
			}
			cancel()
		}
		server.Resume()
	}
	for _, l := range ledgers {
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	const n = 2 * rounds * each
	want := []Row{{"search", "gpt-4o", n + 2, 7 * n, 3 * n, 3 * n, n, 7 * n}}
	for _, l := range ledgers {
		if got := rows(t, l, began, time.Now().Add(time.Minute), "team", "model"); !slices.Equal(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestTotalsSurviveTheGatewayAndExpireInTheEnd(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	l := New(Config{Store: shared.NewRedis(client, "test"), Writer: "a"})
	l.Record(entry("search", "gpt-4o", 7, 3))
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys, err := client.Keys(context.Background(), "*").Result()
	if err != nil || len(keys) != 2 {
		t.Fatalf("keys %q, %v: want a minute and an hour", keys, err)
	}
	for _, key := range keys {
		if ttl := client.TTL(context.Background(), key).Val(); ttl < minutesKept-time.Minute || ttl > hoursKept {
			t.Errorf("%s lives for %v", key, ttl)
		}
	}
	next := New(Config{Store: shared.NewRedis(client, "test"), Writer: "b"})
	defer func() { _ = next.Close(t.Context()) }()
	if got := rows(t, next, time.Now().Add(-time.Hour), time.Now().Add(time.Minute), "team"); len(got) != 1 || got[0].InputTokens != 7 {
		t.Errorf("the next gateway sees %+v", got)
	}
}
