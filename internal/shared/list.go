package shared

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

//go:embed append.lua
var appendSource string

// MemoryList is a list of texts in this process, to which is only ever appended.
// The zero MemoryList is empty. It is safe for concurrent use.
type MemoryList struct {
	mu    sync.Mutex
	texts []string
}

// From returns the texts from the n-th on, the first being the 0th.
func (l *MemoryList) From(ctx context.Context, n int) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.texts[min(n, len(l.texts)):]), nil
}

// Append adds text if the list has exactly n texts, and reports whether it did.
func (l *MemoryList) Append(ctx context.Context, n int, text string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.texts) != n {
		return false, nil
	}
	l.texts = append(l.texts, text)
	return true, nil
}

// RedisList is a list of texts in Redis, to which all gateways append. It is safe
// for concurrent use.
type RedisList struct {
	client redis.UniversalClient
	key    string
	append *redis.Script
}

// NewRedisList returns the list called name, under keys that begin with prefix.
func NewRedisList(client redis.UniversalClient, prefix, name string) *RedisList {
	return &RedisList{client: client, key: prefix + ":list:" + name, append: redis.NewScript(appendSource)}
}

// From returns the texts from the n-th on, the first being the 0th.
func (l *RedisList) From(ctx context.Context, n int) ([]string, error) {
	texts, err := l.client.LRange(ctx, l.key, int64(n), -1).Result()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.key, err)
	}
	return texts, nil
}

// Append adds text if the list has exactly n texts, and reports whether it did.
// After an error it may or may not have.
func (l *RedisList) Append(ctx context.Context, n int, text string) (bool, error) {
	done, err := l.append.Run(ctx, l.client, []string{l.key}, n, text).Int()
	if err != nil {
		return false, fmt.Errorf("append to %s: %w", l.key, err)
	}
	return done == 1, nil
}
