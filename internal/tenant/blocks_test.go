package tenant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// clock is a time that tests move.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

// sharedMap is what instances share, in memory.
type sharedMap struct {
	mu         sync.Mutex
	m          map[string]string
	fail       error // of everything
	unreadable error // of reading alone
}

func (s *sharedMap) Fields(_ context.Context, name string) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name != "blocks" {
		return nil, fmt.Errorf("asked for %q", name)
	}
	if err := cmp.Or(s.fail, s.unreadable); err != nil {
		return nil, err
	}
	return maps.Clone(s.m), nil
}

func (s *sharedMap) Set(_ context.Context, _, field, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		s.m[field] = value
	}
	return s.fail
}

func (s *sharedMap) Delete(_ context.Context, _, field string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		delete(s.m, field)
	}
	return s.fail
}

// caller is somebody of team search with key k.
func caller(user, ip string) Caller {
	c := Caller{Key: &Key{ID: "k", Team: &Team{Name: "search"}}, User: user}
	if ip != "" {
		c.IP = netip.MustParseAddr(ip)
	}
	return c
}

func mustAdd(t *testing.T, b *Blocks, block Block) Block {
	t.Helper()
	added, err := b.Add(t.Context(), block)
	if err != nil {
		t.Fatal(err)
	}
	return added
}

func TestWhomABlockKeepsOut(t *testing.T) {
	for _, s := range []struct {
		scope BlockScope
		value string
		who   Caller
		want  bool
	}{
		{BlockKey, "k", caller("", ""), true},
		{BlockKey, "l", caller("", ""), false},
		{BlockKey, "search", caller("search", ""), false},
		{BlockTeam, "search", caller("", ""), true},
		{BlockTeam, "k", caller("k", ""), false},
		{BlockUser, "eve", caller("eve", ""), true},
		{BlockUser, "eve", caller("Eve", ""), false},
		{BlockUser, "eve", caller("", ""), false},
		{BlockUser, "10.0.0.1", caller("10.0.0.1", ""), true},
		{BlockIP, "10.0.0.1", caller("", "10.0.0.1"), true},
		{BlockIP, "10.0.0.1", caller("", "10.0.0.2"), false},
		{BlockIP, "10.0.0.1", caller("10.0.0.1", ""), false},
		{BlockIP, "10.0.0.0/8", caller("", "10.255.0.2"), true},
		{BlockIP, "10.0.0.0/8", caller("", "11.0.0.2"), false},
		{BlockIP, "0.0.0.0/0", caller("", "11.0.0.2"), true},
		{BlockIP, "0.0.0.0/0", caller("", "2001:db8::1"), false},
		{BlockIP, "::/0", caller("", "2001:db8::1"), true},
		{BlockIP, "::/0", caller("", "11.0.0.2"), false},
		{BlockIP, "2001:db8::/64", caller("", "2001:db8::42"), true},
		{BlockIP, "2001:db8::/64", caller("", "2001:db8:0:1::42"), false},
		{BlockIP, "2001:db8::1", caller("", "2001:db8::1"), true},
		{BlockTeam, "search", Caller{}, false},
		{BlockIP, "::/0", Caller{}, false},
	} {
		b := NewBlocks(nil, (&clock{noon}).now)
		mustAdd(t, b, Block{Scope: s.scope, Value: s.value, Reason: "because"})
		got, ok := b.Match(s.who)
		if ok != s.want || ok && got.Reason != "because" {
			t.Errorf("%s %q, user %q, %v: got %+v, %v, want %v", s.scope, s.value, s.who.User, s.who.IP, got, ok, s.want)
		}
	}
}

func TestABlockEndsWhenItExpiresOrIsDeleted(t *testing.T) {
	c := &clock{noon}
	b := NewBlocks(nil, c.now)
	if _, ok := b.Match(caller("", "")); ok || len(b.List()) != 0 {
		t.Fatal("a new list blocks somebody")
	}
	short := mustAdd(t, b, Block{Scope: BlockKey, Value: "k", ExpiresAt: noon.Add(time.Minute)})
	long := mustAdd(t, b, Block{Scope: BlockKey, Value: "k"})
	if short.ID == long.ID || short.ID == "" {
		t.Errorf("got the ids %q and %q", short.ID, long.ID)
	}
	c.t = noon.Add(time.Minute)
	if got, ok := b.Match(caller("", "")); !ok || got.ID != long.ID {
		t.Errorf("got %+v, %v, want the one that does not expire", got, ok)
	}
	if got := b.List(); len(got) != 1 || got[0].ID != long.ID {
		t.Errorf("got the list %+v", got)
	}
	if err := b.Refresh(t.Context()); err != nil || len(b.current.Load().all) != 1 {
		t.Errorf("what expired is kept: %v", err)
	}
	for _, want := range []bool{true, false} {
		if known, err := b.Delete(t.Context(), long.ID); known != want || err != nil {
			t.Errorf("got %v, %v, want %v", known, err, want)
		}
	}
	if _, ok := b.Match(caller("", "")); ok {
		t.Error("a deleted block is in force")
	}
}

func TestInstancesShareTheirBlocks(t *testing.T) {
	c, shared := &clock{noon}, &sharedMap{m: map[string]string{}}
	one, two := NewBlocks(NewSharedBlocks(shared), c.now), NewBlocks(NewSharedBlocks(shared), c.now)
	forever := mustAdd(t, one, Block{Scope: BlockTeam, Value: "search"})
	mustAdd(t, one, Block{Scope: BlockUser, Value: "eve", ExpiresAt: noon.Add(time.Minute)})
	if _, ok := two.Match(caller("", "")); ok {
		t.Error("the other instance knows it before it asked")
	}
	refresh(t, two)
	if got, ok := two.Match(caller("", "")); !ok || got.ID != forever.ID {
		t.Errorf("got %+v, %v, want %s", got, ok, forever.ID)
	}
	c.t = noon.Add(time.Hour)
	refresh(t, two)
	if len(shared.m) != 1 {
		t.Errorf("what expired is still kept: %v", shared.m)
	}
	if known, err := two.Delete(t.Context(), forever.ID); !known || err != nil {
		t.Errorf("got %v, %v", known, err)
	}
	refresh(t, one)
	if _, ok := one.Match(caller("", "")); ok {
		t.Error("a block is in force that another instance deleted")
	}
	unseen := mustAdd(t, one, Block{Scope: BlockTeam, Value: "search"})
	if known, err := two.Delete(t.Context(), unseen.ID); !known || err != nil || len(shared.m) != 0 {
		t.Errorf("a block just made elsewhere: got %v, %v, want it deleted", known, err)
	}
}

func refresh(t *testing.T, b *Blocks) {
	t.Helper()
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestBlocksStayInForceWhileTheStoreIsAway(t *testing.T) {
	shared := &sharedMap{m: map[string]string{}}
	b := NewBlocks(NewSharedBlocks(shared), (&clock{noon}).now)
	first := mustAdd(t, b, Block{Scope: BlockTeam, Value: "search"})
	away := errors.New("connection refused")
	shared.fail = away
	if err := b.Refresh(t.Context()); !errors.Is(err, away) {
		t.Errorf("refresh: got %v, want %v", err, away)
	}
	if _, err := b.Delete(t.Context(), first.ID); !errors.Is(err, away) {
		t.Errorf("delete: got %v, want %v", err, away)
	}
	if got := b.List(); len(got) != 1 || got[0].ID != first.ID {
		t.Errorf("got %+v, want the first block alone", got)
	}
	shared.fail, shared.unreadable = nil, away
	if _, err := b.Delete(t.Context(), first.ID); !errors.Is(err, away) || len(shared.m) != 1 {
		t.Errorf("delete from what cannot be read: got %v and %v, want %v and the block kept", err, shared.m, away)
	}
}

func TestABlockHoldsHereUntilTheStoreTakesIt(t *testing.T) {
	shared, c := &sharedMap{m: map[string]string{}}, &clock{noon}
	away := errors.New("connection refused")
	shared.fail = away
	b := NewBlocks(NewSharedBlocks(shared), c.now)
	var made []Block
	for _, block := range []Block{
		{Scope: BlockKey, Value: "leaked"},
		{Scope: BlockTeam, Value: "undone"},
		{Scope: BlockTeam, Value: "over", ExpiresAt: noon.Add(time.Second)},
	} {
		block, err := b.Add(t.Context(), block)
		if !errors.Is(err, ErrUntold) || !errors.Is(err, away) {
			t.Errorf("add: got %v, want it untold because of %v", err, away)
		}
		made = append(made, block)
	}
	leaked := Caller{Key: &Key{ID: "leaked", Team: &Team{Name: "search"}}}
	if _, ok := b.Match(leaked); !ok {
		t.Error("the leaked key is let in while the store is away")
	}
	if known, err := b.Delete(t.Context(), made[1].ID); !known || err != nil {
		t.Errorf("delete: got %v, %v, want it deleted: no store knows of it", known, err)
	}
	if err := b.Refresh(t.Context()); !errors.Is(err, away) {
		t.Errorf("refresh: got %v, want %v", err, away)
	}
	if _, ok := b.Match(leaked); !ok {
		t.Error("a refresh without the store lets the leaked key in")
	}
	c.t, shared.fail = noon.Add(time.Minute), nil
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.List(); len(got) != 1 || got[0].ID != made[0].ID || len(shared.m) != 1 {
		t.Errorf("got %+v in force and %v in the store, want the leaked key's alone", got, shared.m)
	}
	if known, err := b.Delete(t.Context(), made[0].ID); !known || err != nil || len(shared.m) != 0 {
		t.Errorf("delete, afterwards: got %v, %v and %v in the store, want it gone", known, err, shared.m)
	}
}

func TestDeletingFromAnEmptyStoreFindsNothing(t *testing.T) {
	b := NewBlocks(NewSharedBlocks(&sharedMap{}), (&clock{noon}).now)
	if known, err := b.Delete(t.Context(), "blk_1"); known || err != nil {
		t.Errorf("got %v, %v, want false", known, err)
	}
}

func TestOneUnreadableBlockDoesNotHideTheOthers(t *testing.T) {
	shared := &sharedMap{m: map[string]string{"bad": "{", "good": `{"scope":"team","value":"search"}`}}
	b := NewBlocks(NewSharedBlocks(shared), (&clock{noon}).now)
	if err := b.Refresh(t.Context()); !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), "block bad") {
		t.Errorf("got %v, want the unreadable one named", err)
	}
	if got, ok := b.Match(caller("", "")); !ok || got.ID != "good" {
		t.Errorf("got %+v, %v, want the good one", got, ok)
	}
	if known, err := b.Delete(t.Context(), "good"); !known || err != nil || len(b.List()) != 0 {
		t.Errorf("got %v, %v, want it deleted although the other cannot be read", known, err)
	}
}

func TestABlockIsCheckedWhenItIsAdded(t *testing.T) {
	b := NewBlocks(nil, (&clock{noon}).now)
	if _, err := b.Add(t.Context(), Block{Scope: "model", Value: "x"}); err == nil || len(b.List()) != 0 {
		t.Errorf("got %v and %v", err, b.List())
	}
	got := mustAdd(t, b, Block{Scope: BlockIP, Value: "10.9.9.9/8"})
	if got.Value != "10.0.0.0/8" {
		t.Errorf("got %q, want the network", got.Value)
	}
}

func TestBlocksMayChangeWhileTheyAreAsked(t *testing.T) {
	shared := &sharedMap{m: map[string]string{}}
	b := NewBlocks(NewSharedBlocks(shared), func() time.Time { return noon })
	team := mustAdd(t, b, Block{Scope: BlockTeam, Value: "search"})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				added, err := b.Add(t.Context(), Block{Scope: BlockUser, Value: fmt.Sprint(i, j)})
				if err != nil {
					t.Error(err)
				}
				if err := b.Refresh(t.Context()); err != nil {
					t.Error(err)
				}
				if _, err := b.Delete(t.Context(), added.ID); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 1000 {
				if got, ok := b.Match(caller("eve", "10.0.0.1")); !ok || got.ID != team.ID {
					t.Errorf("got %+v, %v, want the team's block all the time", got, ok)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := b.List(); len(got) != 1 {
		t.Errorf("got %d blocks, want the team's alone", len(got))
	}
}

func TestMatchingDoesNotAllocate(t *testing.T) {
	b := NewBlocks(nil, (&clock{noon}).now)
	mustAdd(t, b, Block{Scope: BlockUser, Value: "mallory"})
	mustAdd(t, b, Block{Scope: BlockIP, Value: "192.0.2.0/24"})
	mustAdd(t, b, Block{Scope: BlockIP, Value: "2001:db8::/48"})
	who := caller("eve", "10.0.0.1")
	if got := testing.AllocsPerRun(100, func() { b.Match(who) }); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

func BenchmarkMatch(b *testing.B) {
	blocks := NewBlocks(nil, func() time.Time { return noon })
	for i := range 1000 {
		if _, err := blocks.Add(b.Context(), Block{Scope: BlockIP, Value: fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)}); err != nil {
			b.Fatal(err)
		}
	}
	who := caller("eve", "11.0.0.1")
	b.ReportAllocs()
	for b.Loop() {
		blocks.Match(who)
	}
}
