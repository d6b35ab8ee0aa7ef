package books

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// adopt posts what dead processes left in the spool's directory. What cannot be
// posted now is tried again later, here or by another process.
func (b *Books) adopt() {
	if b.config.Spool == "" || b.db.Ready() != nil {
		return
	}
	locks, _ := filepath.Glob(filepath.Join(b.config.Spool, "*.lock")) // the pattern is right unless the directory has one
	for _, path := range locks {
		instance := strings.TrimSuffix(filepath.Base(path), ".lock")
		if instance == b.config.Instance || b.ctx.Err() != nil {
			continue
		}
		if err := b.adoptOne(b.ctx, instance); err != nil && !errors.Is(err, errHeld) && b.ctx.Err() == nil {
			b.config.Logger.Warn("a dead gateway's records wait in the spool", "instance", instance, "error", err.Error())
		}
	}
}

// adoptOne posts the segments of one process in their order and removes them. It
// returns errHeld if the process lives.
func (b *Books) adoptOne(ctx context.Context, instance string) error {
	s := &spool{dir: b.config.Spool, instance: instance}
	lock, err := lockFile(s.path("lock"))
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // nothing is written to it
	segments, err := segmentsOf(s)
	if err != nil {
		return err
	}
	for _, n := range segments {
		for at := (place{Segment: n}); ; {
			items, err := readSegment(s.segment(n), at, batchItems)
			if err != nil {
				return fmt.Errorf("read the spool: %w", err)
			}
			if len(items) == 0 {
				break
			}
			b.posting.Lock()
			err = b.post(ctx, instance, items)
			b.posting.Unlock()
			if err != nil {
				return err
			}
			at = items[len(items)-1].end
		}
		if err := os.Remove(s.segment(n)); err != nil {
			return err
		}
	}
	return os.Remove(s.path("lock"))
}

// segmentsOf lists the numbers of s's files, in order.
func segmentsOf(s *spool) ([]int, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var found []int
	for _, e := range entries {
		end, ours := strings.CutPrefix(e.Name(), s.instance+".")
		if n, err := strconv.Atoi(end); ours && err == nil {
			found = append(found, n)
		}
	}
	slices.Sort(found)
	return found, nil
}
