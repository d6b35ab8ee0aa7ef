package shared

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"llmgw/internal/parting"
)

//go:embed add.lua
var addSource string

//go:embed swap.lua
var swapSource string

// readsAtOnce bounds how many maps travel in one pipeline.
const readsAtOnce = 500

// Redis keeps the maps in Redis, one hash each. It is safe for concurrent use
// and keeps nothing of its own; the client stays its caller's.
type Redis struct {
	client redis.UniversalClient
	prefix string
	add    *redis.Script
	swap   *redis.Script
}

// NewRedis returns the maps that client's Redis holds under keys that begin
// with prefix.
func NewRedis(client redis.UniversalClient, prefix string) *Redis {
	return &Redis{client: client, prefix: prefix, add: redis.NewScript(addSource), swap: redis.NewScript(swapSource)}
}

// Fields returns the map called name; empty if there is none.
func (r *Redis) Fields(ctx context.Context, name string) (map[string]string, error) {
	fields, err := r.client.HGetAll(ctx, r.key(name)).Result()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return visible(fields), nil
}

// FieldsOf returns the maps called names, in their order, in few round trips.
func (r *Redis) FieldsOf(ctx context.Context, names []string) ([]map[string]string, error) {
	out := make([]map[string]string, 0, len(names))
	for len(names) > 0 {
		now := names[:min(len(names), readsAtOnce)]
		names = names[len(now):]
		pipe := r.client.Pipeline()
		replies := make([]*redis.MapStringStringCmd, len(now))
		for i, name := range now {
			replies[i] = pipe.HGetAll(ctx, r.key(name))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, fmt.Errorf("read %s and %d more: %w", now[0], len(now)-1, err)
		}
		for _, reply := range replies {
			out = append(out, visible(reply.Val()))
		}
	}
	return out, nil
}

// Set gives a field of the map called name a value.
func (r *Redis) Set(ctx context.Context, name, field, value string) error {
	if err := r.client.HSet(ctx, r.key(name), field, value).Err(); err != nil {
		return fmt.Errorf("set %q of %s: %w", field, name, err)
	}
	return nil
}

// SetAll gives fields of the map called name values. There must be some.
func (r *Redis) SetAll(ctx context.Context, name string, fields map[string]string) error {
	if err := r.client.HSet(ctx, r.key(name), fields).Err(); err != nil {
		return fmt.Errorf("set %d fields of %s: %w", len(fields), name, err)
	}
	return nil
}

// Swap puts value in the place of old, where "" is no field, and reports whether old
// was there. After an error it may or may not have been done.
func (r *Redis) Swap(ctx context.Context, name, field, old, value string) (bool, error) {
	done, err := r.swap.Run(ctx, r.client, []string{r.key(name)}, field, old, value).Int()
	if err != nil {
		return false, fmt.Errorf("swap %q of %s: %w", field, name, err)
	}
	return done == 1, nil
}

// Delete removes a field; it is no error if there is none.
func (r *Redis) Delete(ctx context.Context, name, field string) error {
	if err := r.client.HDel(ctx, r.key(name), field).Err(); err != nil {
		return fmt.Errorf("delete %q of %s: %w", field, name, err)
	}
	return nil
}

// AddOnce adds deltas to the whole numbers in the map called name, all or none; a
// missing field is 0. The map expires ttl after what was last added; 0: never. It
// returns ErrNotNumber if a field is a text. After any other error it may or may
// not have been done. The writer numbers its batches upwards from 1 and may send
// one again: a batch whose number is not above the last one that this map took
// from the writer is not added, and no error.
func (r *Redis) AddOnce(ctx context.Context, name, writer string, batch int64, deltas map[string]int64, ttl time.Duration) error {
	args := Addition{name, writer, batch, deltas, ttl}.args()
	done, err := r.add.Run(ctx, r.client, []string{r.key(name)}, args...).Int()
	if err != nil {
		return fmt.Errorf("add to %s: %w", name, err)
	}
	if done < 0 {
		return fmt.Errorf("add to %s: %w", name, ErrNotNumber)
	}
	return nil
}

// Addition is what AddOnce is called with.
type Addition struct {
	Name, Writer string
	Batch        int64
	Deltas       map[string]int64
	TTL          time.Duration
}

// args are the script's, besides the key.
func (a Addition) args() []any {
	args := []any{a.TTL.Milliseconds(), writerMark + a.Writer, a.Batch}
	for field, delta := range a.Deltas {
		args = append(args, field, strconv.FormatInt(delta, 10))
	}
	return args
}

// Leave sends additions in their order, as AddOnce makes them, and waits for no
// answer: a frozen Redis makes them when it goes on. It returns an error if that
// could not be sent.
func (r *Redis) Leave(ctx context.Context, additions []Addition) error {
	commands := make([]parting.Command, len(additions))
	for i, a := range additions {
		key := r.key(a.Name)
		commands[i] = parting.Command{Key: key, Args: append([]any{"eval", addSource, 1, key}, a.args()...)}
	}
	if err := parting.Send(ctx, r.client, commands); err != nil {
		return fmt.Errorf("leave %d additions: %w", len(additions), err)
	}
	return nil
}

// key is one hash's; each is in a slot of its own.
func (r *Redis) key(name string) string { return r.prefix + ":shared:" + name }

func visible(fields map[string]string) map[string]string {
	for field := range fields {
		if strings.HasPrefix(field, writerMark) {
			delete(fields, field)
		}
	}
	return fields
}
