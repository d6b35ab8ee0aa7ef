// Package parting sends a Redis that does not answer what a process has left to
// say when it ends. What was written to the socket of a frozen Redis is executed
// when Redis goes on, although the sender is gone by then.
//
// Nobody learns what came of it: only commands that may be executed twice, or
// not at all, can be sent.
package parting

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Time bounds what a part of a gateway sends at its end: a connection is made and
// written to, and nothing is waited for.
const Time = 200 * time.Millisecond

// Command is one call: the key that says which server has it, and all its words,
// each a string, a []byte or a number.
type Command struct {
	Key  string
	Args []any
}

// Context is a new Time for who has used up ctx.
func Context(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), Time)
}

// Send writes commands to the servers that have their keys, in their order, on one
// new connection for each server. It blocks until they are written or ctx ends.
// Over TLS it fails if the server is frozen, which then cannot shake hands.
func Send(ctx context.Context, client redis.UniversalClient, commands []Command) error {
	servers := make(map[string]*redis.Options)
	bytes := make(map[string][]byte)
	for _, c := range commands {
		o, err := server(ctx, client, c.Key)
		if err != nil {
			return fmt.Errorf("find the server of %s: %w", c.Key, err)
		}
		if servers[o.Addr] == nil {
			servers[o.Addr], bytes[o.Addr] = o, greeting(o)
		}
		bytes[o.Addr] = appendCommand(bytes[o.Addr], c.Args...)
	}
	var errs []error
	for addr, o := range servers {
		errs = append(errs, write(ctx, o, bytes[addr]))
	}
	return errors.Join(errs...)
}

// server is how the server that has key is reached.
func server(ctx context.Context, client redis.UniversalClient, key string) (*redis.Options, error) {
	switch c := client.(type) {
	case *redis.Client:
		return c.Options(), nil
	case *redis.ClusterClient:
		node, err := c.MasterForKey(ctx, key)
		if err != nil {
			return nil, err //nolint:wrapcheck // the caller does
		}
		return node.Options(), nil
	default:
		return nil, fmt.Errorf("parting: no server of a %T is known", client)
	}
}

// greeting is what comes before the commands. A Redis that answered a connection
// whose other end is gone would close it, and not read the rest.
func greeting(o *redis.Options) (b []byte) {
	switch {
	case o.Username != "":
		b = appendCommand(b, "auth", o.Username, o.Password)
	case o.Password != "":
		b = appendCommand(b, "auth", o.Password)
	}
	b = appendCommand(b, "client", "reply", "off")
	if o.DB != 0 {
		b = appendCommand(b, "select", o.DB)
	}
	return b
}

func write(ctx context.Context, o *redis.Options, b []byte) error {
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close() //nolint:errcheck // what was written is on its way
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetWriteDeadline(deadline); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	if _, err := conn.Write(b); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// appendCommand adds a command as Redis's protocol has it.
func appendCommand(b []byte, args ...any) []byte {
	b = append(strconv.AppendInt(append(b, '*'), int64(len(args)), 10), "\r\n"...)
	for _, arg := range args {
		var word []byte
		switch v := arg.(type) {
		case string:
			word = []byte(v)
		case []byte:
			word = v
		default:
			word = fmt.Append(nil, v)
		}
		b = append(strconv.AppendInt(append(b, '$'), int64(len(word)), 10), "\r\n"...)
		b = append(append(b, word...), "\r\n"...)
	}
	return b
}
