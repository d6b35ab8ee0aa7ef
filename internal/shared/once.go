package shared

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/redis/go-redis/v9"
)

// SetFor gives fields of the map called name values, all or none. The map expires
// ttl from now.
func (m *Memory) SetFor(ctx context.Context, name string, fields map[string]string, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.open(name)
	maps.Copy(t.fields, fields)
	t.expires = time.Now().Add(ttl)
	m.tidy(max(sweepEvery, len(m.maps)))
	return nil
}

// SetFor gives fields of the map called name values, all or none. The map expires
// ttl from now.
func (r *Redis) SetFor(ctx context.Context, name string, fields map[string]string, ttl time.Duration) error {
	_, err := r.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, r.key(name), fields)
		p.PExpire(ctx, r.key(name), ttl)
		return nil
	})
	if err != nil {
		return fmt.Errorf("set %d fields of %s: %w", len(fields), name, err)
	}
	return nil
}

// SetOnce gives a field of the map called name a value, unless it has one. It
// returns the value that the field has then. The map stays as long as it would.
func (m *Memory) SetOnce(ctx context.Context, name, field, value string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.open(name)
	if had, ok := t.fields[field]; ok {
		return had, nil
	}
	t.fields[field] = value
	return value, nil
}

// SetOnce gives a field of the map called name a value, unless it has one. It
// returns the value that the field has then. The map stays as long as it would.
func (r *Redis) SetOnce(ctx context.Context, name, field, value string) (string, error) {
	var got *redis.StringCmd
	_, err := r.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HSetNX(ctx, r.key(name), field, value)
		got = p.HGet(ctx, r.key(name), field)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("set %q of %s once: %w", field, name, err)
	}
	return got.Val(), nil
}
