package redisstore

import (
	"context"
	"time"

	"llmgw/internal/budget"
)

// SetClock makes every script take t as Redis's time.
func (s *Store) SetClock(t time.Time) { s.clock.Store(t.UnixMilli()) }

// reserveAlone decides r in a script call of its own, as a store without batchers
// would.
func (s *Store) reserveAlone(ctx context.Context, r budget.Request) error {
	l, w := s.batcher(s.prefix), s.waiting(r)
	keys, args := l.reserveCall([]*reserving{w})
	l.reserved(s.run(ctx, &s.scripts.reserve, keys, args), []*reserving{w})
	return w.err
}

// waiting is r as it waits in the store's only batcher.
func (s *Store) waiting(r budget.Request) *reserving {
	g := s.split(&r)[0]
	return &reserving{
		id: r.ID, epoch: r.Epoch, parts: g.parts, lines: len(g.lines), done: make(chan struct{}),
		head: append(requestHead(&r), byte(len(g.lines)), byte(len(g.parts))),
	}
}

// settleAlone is the same for a settlement.
func (s *Store) settleAlone(ctx context.Context, st budget.Settlement) error {
	l := s.batcher(s.prefix)
	var err error
	one := []*settling{{id: st.ID, body: bodyOf(st.Lines, st.Used), done: func(_ budget.Settled, e error) { err = e }}}
	l.settled(s.run(ctx, &s.scripts.settle, l.settleKeys(one), l.settleArgs(one)), one)
	return err
}
