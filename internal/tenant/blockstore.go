package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// blocksName is what the blocks are kept under.
const blocksName = "blocks"

// fields is a map of strings that all instances share, one map for each name.
type fields interface {
	Fields(ctx context.Context, name string) (map[string]string, error)
	Set(ctx context.Context, name, field, value string) error
	Delete(ctx context.Context, name, field string) error
}

// SharedBlocks is a BlockStore on a map that instances share, each block a
// field.
type SharedBlocks struct{ fields fields }

// NewSharedBlocks returns the blocks of what is kept in f.
func NewSharedBlocks(f fields) *SharedBlocks { return &SharedBlocks{fields: f} }

// Load implements BlockStore.
func (s *SharedBlocks) Load(ctx context.Context) ([]Block, error) {
	all, err := s.fields.Fields(ctx, blocksName)
	if err != nil {
		return nil, err
	}
	blocks := make([]Block, 0, len(all))
	var unreadable []error
	for _, id := range slices.Sorted(maps.Keys(all)) {
		var b Block
		if err := json.Unmarshal([]byte(all[id]), &b); err != nil {
			unreadable = append(unreadable, fmt.Errorf("block %s: %w", id, err))
			continue
		}
		b.ID = id
		blocks = append(blocks, b)
	}
	return blocks, errors.Join(unreadable...)
}

// Save implements BlockStore.
func (s *SharedBlocks) Save(ctx context.Context, b Block) error {
	value, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return s.fields.Set(ctx, blocksName, b.ID, string(value))
}

// Delete implements BlockStore.
func (s *SharedBlocks) Delete(ctx context.Context, id string) error {
	return s.fields.Delete(ctx, blocksName, id)
}
