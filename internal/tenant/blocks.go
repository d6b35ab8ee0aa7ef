package tenant

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"llmgw/internal/fault"
)

// maxBlocks bounds the list; a longer one is a firewall's work.
const maxBlocks = 100_000

// BlockStore keeps blocks where all instances see them. Blocks calls it from
// one goroutine at a time.
type BlockStore interface {
	// Load returns all blocks. What cannot be read is left out and told by the
	// error; without any error the list is complete.
	Load(ctx context.Context) ([]Block, error)
	// Save keeps a block under its ID.
	Save(ctx context.Context, b Block) error
	// Delete forgets a block. One that is not there is no error.
	Delete(ctx context.Context, id string) error
}

// Blocks is the list of who is kept out. It is safe for concurrent use; Match
// takes no lock.
type Blocks struct {
	store BlockStore // nil: this instance alone
	now   func() time.Time

	mu      sync.Mutex // over changes, the store's calls included
	untold  []Block    // in force here, and not yet in the store
	current atomic.Pointer[blockIndex]
	added   atomic.Pointer[func()] // OnAdded's; nil: nobody listens
}

// NewBlocks returns an empty list. A nil store keeps blocks in this process
// alone; now is the clock by which they expire.
func NewBlocks(store BlockStore, now func() time.Time) *Blocks {
	b := &Blocks{store: store, now: now}
	b.current.Store(newBlockIndex(nil))
	return b
}

// OnAdded has f called after a block has come into force that was not before,
// here or at another instance.
func (b *Blocks) OnAdded(f func()) { b.added.Store(&f) }

// put puts blocks in force; mu is held.
func (b *Blocks) put(blocks []Block) {
	before := b.current.Load().all
	b.current.Store(newBlockIndex(blocks))
	known := make(map[string]bool, len(before))
	for _, block := range before {
		known[block.ID] = true
	}
	fresh := func(block Block) bool { return !known[block.ID] }
	if f := b.added.Load(); f != nil && slices.ContainsFunc(blocks, fresh) {
		(*f)()
	}
}

// Match returns a block that keeps c out now, and whether there is one. It does
// not block and takes no lock.
func (b *Blocks) Match(c Caller) (Block, bool) {
	index := b.current.Load()
	if len(index.all) == 0 {
		return Block{}, false
	}
	return index.match(c, b.now())
}

// List returns the blocks in force, in the order of their ids.
func (b *Blocks) List() []Block {
	now := b.now()
	list := []Block{}
	for _, block := range b.current.Load().all {
		if !block.Expired(now) {
			list = append(list, block)
		}
	}
	return list
}

// ErrUntold says that a block is in force in this instance alone until the store
// takes it, with a later Refresh.
var ErrUntold = errors.New("tenant: the store does not know of the block yet")

// ErrUnreadable says that the store has a block that cannot be read here, such as
// one of a later version. All others are in force.
var ErrUnreadable = errors.New("tenant: a block of the store cannot be read")

// Add checks block, gives it an id, puts it in force and keeps it in the store.
// The error is a fault if the block is not valid, and then it is not in force, or
// ErrUntold: the time of a block is now, whatever the store does.
func (b *Blocks) Add(ctx context.Context, block Block) (Block, error) {
	if err := block.normalize(b.now()); err != nil {
		return Block{}, err
	}
	block.ID = "blk_" + strings.ToLower(rand.Text())
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.current.Load().all
	if len(all) >= maxBlocks {
		return Block{}, fault.Invalid("", fmt.Sprintf("There are already %d blocks.", len(all)))
	}
	b.put(append(slices.Clone(all), block))
	if b.store == nil {
		return block, nil
	}
	if err := b.store.Save(ctx, block); err != nil {
		b.untold = append(b.untold, block)
		return block, fmt.Errorf("save block %s: %w: %w", block.ID, ErrUntold, err)
	}
	return block, nil
}

// tell saves what the store does not know of yet.
func (b *Blocks) tell(ctx context.Context) error {
	for len(b.untold) > 0 {
		if block := b.untold[0]; !block.Expired(b.now()) {
			if err := b.store.Save(ctx, block); err != nil {
				return fmt.Errorf("save block %s: %w", block.ID, err)
			}
		}
		b.untold = b.untold[1:]
	}
	return nil
}

// Delete ends a block and tells whether it was there. After an error of the
// store it is still in force.
func (b *Blocks) Delete(ctx context.Context, id string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.current.Load().all
	if b.forgetUntold(id) {
		return true, nil
	}
	if b.store != nil { // which may know of one that this instance has not seen yet
		loaded, err := b.store.Load(ctx)
		if err != nil && loaded == nil {
			return false, fmt.Errorf("load blocks: %w", err)
		}
		if err := b.store.Delete(ctx, id); err != nil {
			return false, fmt.Errorf("delete block %s: %w", id, err)
		}
		all = loaded
	}
	left := slices.DeleteFunc(slices.Clone(all), func(block Block) bool { return block.ID == id })
	b.put(left)
	return len(left) < len(all), nil
}

// forgetUntold ends a block that the store does not know of, and tells whether
// there is one. It may know all the same, if the answer was lost: whoever asks
// again ends it there.
func (b *Blocks) forgetUntold(id string) bool {
	is := func(block Block) bool { return block.ID == id }
	if !slices.ContainsFunc(b.untold, is) {
		return false
	}
	b.untold = slices.DeleteFunc(b.untold, is)
	b.current.Store(newBlockIndex(slices.DeleteFunc(slices.Clone(b.current.Load().all), is)))
	return true
}

// Refresh takes over what the store has now, and removes from it what expired.
// If the store cannot be read, the blocks in force stay in force; if only some of
// its blocks cannot, the error is ErrUnreadable.
func (b *Blocks) Refresh(ctx context.Context) error {
	if b.store == nil {
		return b.forgetExpired()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.tell(ctx); err != nil {
		return err
	}
	loaded, err := b.store.Load(ctx)
	if err != nil && loaded == nil {
		return fmt.Errorf("load blocks: %w", err)
	}
	now := b.now()
	kept := loaded[:0:0]
	for _, block := range loaded {
		if !block.Expired(now) {
			kept = append(kept, block)
			continue
		}
		if err := b.store.Delete(ctx, block.ID); err != nil {
			return fmt.Errorf("delete block %s: %w", block.ID, err)
		}
	}
	b.put(kept)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return nil
}

// forgetExpired drops what is over from a list without a store.
func (b *Blocks) forgetExpired() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	all := slices.Clone(b.current.Load().all)
	b.current.Store(newBlockIndex(slices.DeleteFunc(all, func(block Block) bool { return block.Expired(now) })))
	return nil
}
