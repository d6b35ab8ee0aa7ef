package redisstore

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// parts are the scripts' sources. Redis has no modules: what several need is put
// before each.
//
//go:embed *.lua
var parts embed.FS

// script is a program for Redis, as it was written and as it is run, and the name
// that Redis knows it by.
type script struct{ source, text, sha string }

// scripts are the programs of a Store. All but reserve run when Redis is out
// of memory: they end what is open, or write next to nothing (S27).
type scripts struct {
	reserve, settle, report, read, correct, beat, fence, reclaim, list script
}

func newScripts() scripts {
	const (
		plain    = "#!lua\n"
		readOnly = "#!lua flags=no-writes\n"
		anyway   = "#!lua flags=allow-oom\n"
	)
	// A function costs time at each call, used or not: each script has what it
	// needs.
	counters := []string{"base", "counted", "bucket", "pacing", "calendar", "window", "log", "slots", "counter", "state"}
	with := func(more ...string) []string { return append(slices.Clip(counters), more...) }
	return scripts{
		reserve: newScript(plain, with("claim", "judge", "take", "record", "reserve")...),
		settle:  newScript(anyway, with("take", "spend", "record", "ending", "settle")...),
		report:  newScript(anyway, with("take", "spend", "record", "ending", "report")...),
		read:    newScript(readOnly, with("claim", "judge", "read")...),
		correct: newScript(anyway, with("take", "spend", "correct")...),
		beat:    newScript(anyway, "base", "beat"),
		fence:   newScript(anyway, "base", "fence"),
		reclaim: newScript(anyway, with("take", "spend", "record", "ending", "reclaim")...),
		list:    newScript(readOnly, "base", "record", "list"),
	}
}

// newScript is the named sources under a first line for Redis.
func newScript(first string, names ...string) script {
	var text strings.Builder
	text.WriteString(first)
	for _, name := range names {
		source, err := parts.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // a name that is not embedded: no program without it
		}
		text.Write(source)
	}
	return scriptOf(dispatch(text.String()))
}

func scriptOf(source string) script {
	text := inline(source)
	sum := sha1.Sum([]byte(text))
	return script{source: source, text: text, sha: hex.EncodeToString(sum[:])}
}

// constants are lines such as local OPEN, SETTLED = 1, 2 -- why.
var constants = regexp.MustCompile(`(?m)^local ([A-Z][A-Z_, ]*) = (.*?)( --.*)?$`)

// inline writes a source's constants where they are used. Redis makes the locals
// of a script anew for each call, and each function finds those that it uses by
// walking a list of them: a quarter of a reserve's time.
func inline(source string) string {
	values := make(map[string]string)
	text := constants.ReplaceAllStringFunc(source, func(line string) string {
		m := constants.FindStringSubmatch(line)
		names, those := strings.Split(m[1], ", "), strings.Split(m[2], ", ")
		for i, name := range names {
			values[name] = "(" + those[i] + ")"
		}
		return ""
	})
	return regexp.MustCompile(`\b[A-Z][A-Z_]*\b`).ReplaceAllStringFunc(text, func(word string) string {
		if value, ok := values[word]; ok {
			return value
		}
		return word
	})
}

// command makes a call of the script: EVALSHA, the number of keys, keys, args.
func (p *script) command(ctx context.Context, keys, args []any) *redis.Cmd {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, "evalsha", p.sha, len(keys))
	all = append(all, keys...)
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// whole is the same call with the script's text, for a Redis that lost it.
func (p *script) whole(cmd *redis.Cmd) *redis.Cmd {
	all := append([]any(nil), cmd.Args()...)
	all[0], all[1] = "eval", p.text
	again := redis.NewCmd(context.Background(), all...)
	again.SetFirstKeyPos(3)
	return again
}

func lost(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") }

// run calls one script.
func (s *Store) run(ctx context.Context, p *script, keys, args []any) *redis.Cmd {
	cmd := p.command(ctx, keys, args)
	s.process(ctx, cmd)
	if lost(cmd.Err()) {
		cmd = p.whole(cmd)
		s.process(ctx, cmd)
	}
	return cmd
}

// process makes one call; the command has its error.
func (s *Store) process(ctx context.Context, cmd *redis.Cmd) {
	s.lookAround(s.client.Process(ctx, cmd))
}

// lookAround lets the client ask a cluster who is who if a node did not answer:
// by itself it would go on asking a dead master for a minute. It does not
// block, and the client does it five times a second at most.
func (s *Store) lookAround(err error) {
	cc, ok := s.client.(*redis.ClusterClient)
	var reply redis.Error
	if !ok || err == nil || errors.As(err, &reply) {
		return
	}
	cc.ReloadState(context.Background())
}

// runBoth calls two scripts in one round trip, in their order.
func (s *Store) runBoth(ctx context.Context, p *script, a *redis.Cmd, q *script, b *redis.Cmd) (*redis.Cmd, *redis.Cmd) {
	s.pipe(ctx, a, b)
	if !lost(a.Err()) && !lost(b.Err()) {
		return a, b
	}
	// A Redis without the first and with the second has applied the second.
	if lost(a.Err()) {
		a = p.whole(a)
	}
	if !lost(b.Err()) {
		s.process(ctx, a)
		return a, b
	}
	b = q.whole(b)
	s.pipe(ctx, a, b)
	return a, b
}

func (s *Store) pipe(ctx context.Context, cmds ...*redis.Cmd) {
	pipe := s.client.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd) // only queues
	}
	_, err := pipe.Exec(ctx) // each command has its error
	s.lookAround(err)
}

// text is a script's answer.
func text(cmd *redis.Cmd) (*reader, error) {
	s, err := cmd.Text()
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return &reader{rest: s}, nil
}

// given is ARGV[1]: the time that a test set, else 0.
func (s *Store) given() any { return s.clock.Load() }
