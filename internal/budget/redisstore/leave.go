package redisstore

import (
	"context"
	"fmt"
	"slices"

	"llmgw/internal/budget"
	"llmgw/internal/parting"
)

// Leave sends what a gateway has left when it ends, and waits for no answer: posts,
// which are forced, and the ends after them. A frozen Redis executes that when it
// goes on. It returns an error if that could not be sent.
func (s *Store) Leave(ctx context.Context, posts []budget.Request, ends []budget.Settlement) error {
	reserves, settles := make(map[string][]*reserving), make(map[string][]*settling)
	for i := range posts {
		r := &posts[i]
		head := requestHead(r)
		groups := s.split(r)
		for j := range groups {
			g := &groups[j]
			reserves[g.base] = append(reserves[g.base], g.reserving(r, head))
		}
	}
	for _, end := range ends {
		bases, used := s.spread(end.Lines, end.Used)
		for _, base := range bases {
			settles[base] = append(settles[base], &settling{id: end.ID, body: usedBody(used[base])})
		}
	}
	var commands []parting.Command
	call := func(base string, p *script, keys, args []any) {
		commands = append(commands, parting.Command{Key: base, Args: p.command(ctx, keys, args).Args()})
	}
	// Redis may have been emptied since the scripts were last called.
	load := func(base string, p *script) {
		commands = append(commands, parting.Command{Key: base, Args: []any{"script", "load", p.text}})
	}
	for base, list := range reserves {
		load(base, &s.scripts.reserve)
		for some := range slices.Chunk(list, maxReserves/4) { // a post has more lines than a request
			keys, args := s.batcher(base).reserveCall(some)
			call(base, &s.scripts.reserve, keys, args)
		}
	}
	for base, list := range settles {
		load(base, &s.scripts.settle)
		for some := range slices.Chunk(list, maxSettles) {
			b := s.batcher(base)
			call(base, &s.scripts.settle, b.settleKeys(some), b.settleArgs(some))
		}
	}
	if err := parting.Send(ctx, s.client, commands); err != nil {
		return fmt.Errorf("leave %d settlements: %w", len(ends), err)
	}
	return nil
}
