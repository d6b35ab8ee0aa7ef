package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"llmgw/internal/budget"
)

// reclaimBatch is how many records one script call ends: some milliseconds.
const reclaimBatch = 100

type registration struct {
	epoch budget.Epoch
	base  string
}

// register makes Redis know the epoch, and on a cluster what it uses, before
// its first record: what is not known cannot be reclaimed.
func (s *Store) register(ctx context.Context, e budget.Epoch, base string) error {
	r := registration{e, base}
	if _, ok := s.known.Load(r); ok {
		return nil
	}
	if e == budget.Outside { // which has no heartbeat
		if err := s.registerOutside(ctx, base); err != nil {
			return fmt.Errorf("register %s: %w", base, err)
		}
		s.known.Store(r, true)
		return nil
	}
	s.known.Store(r, true) // so that the heartbeat tells of it
	beat, err := s.Heartbeat(ctx, e)
	if err == nil && beat.Fenced {
		err = budget.ErrFenced
	}
	if err != nil {
		s.known.Delete(r)
	}
	return err
}

// registerOutside makes a cluster remember, for good, that base has reservations
// of no gateway.
func (s *Store) registerOutside(ctx context.Context, base string) error {
	if !s.cluster {
		return nil
	}
	return s.client.SAdd(ctx, s.registry()+":tags:"+string(budget.Outside), base).Err()
}

// Heartbeat implements budget.Store. It also checks, once, that Redis evicts
// nothing.
func (s *Store) Heartbeat(ctx context.Context, e budget.Epoch) (budget.Beat, error) {
	if err := s.check(ctx); err != nil {
		return budget.Beat{}, fmt.Errorf("heartbeat of %s: %w", e, err)
	}
	args := []any{s.given(), string(e)}
	if s.cluster {
		s.known.Range(func(k, _ any) bool {
			if r := k.(registration); r.epoch == e {
				args = append(args, r.base)
			}
			return true
		})
	}
	answer, err := s.run(ctx, &s.scripts.beat, []any{s.registry()}, args).Int64Slice()
	if err != nil || len(answer) != 3 {
		return budget.Beat{}, fmt.Errorf("heartbeat of %s: %w", e, orAnswer(err))
	}
	s.sync(answer[2])
	return budget.Beat{Fenced: answer[0] == 1, Live: int(answer[1]), At: time.UnixMilli(answer[2])}, nil
}

func orAnswer(err error) error {
	if err == nil {
		return errAnswer
	}
	return err
}

// bases are where an epoch may have reservations.
func (s *Store) bases(ctx context.Context, e budget.Epoch) ([]string, error) {
	if !s.cluster {
		return []string{s.prefix}, nil
	}
	bases, err := s.client.SMembers(ctx, s.registry()+":tags:"+string(e)).Result()
	if err != nil {
		return nil, fmt.Errorf("list the tags of %s: %w", e, err)
	}
	return bases, nil
}

// Reclaim implements budget.Store. It fences first, in the registry and then
// wherever the epoch has records, and ends records in small batches. It also
// ends records that outlived their lifetime; on a cluster a part of them a call.
func (s *Store) Reclaim(ctx context.Context, silence time.Duration, limit int) (budget.Reclaimed, error) {
	done := budget.Reclaimed{}
	epochs, dying, live, err := s.fence(ctx, silence.Milliseconds(), "")
	if err != nil {
		return done, fmt.Errorf("reclaim: %w", err)
	}
	done.Epochs = epochs
	for _, e := range dying {
		if err := s.bury(ctx, budget.Epoch(e), limit, &done); err != nil {
			return done, fmt.Errorf("reclaim %s: %w", e, err)
		}
		if done.More {
			return done, nil
		}
	}
	if len(live) > 0 {
		if err := s.endLate(ctx, budget.Epoch(live[0]), live, 1, limit, &done); err != nil || done.More {
			return done, err
		}
	}
	return done, s.endLate(ctx, budget.Outside, []string{string(budget.Outside)}, outsideBases, limit, &done)
}

// outsideBases is how many bases of a cluster one reclaim looks through for
// reservations of no gateway, whose lifetimes are short.
const outsideBases = 64

// endLate ends the records of epochs that outlived their lifetime, on the bases
// that e has used; of a cluster on most of them a call, in turn.
func (s *Store) endLate(ctx context.Context, e budget.Epoch, epochs []string, most, limit int, done *budget.Reclaimed) error {
	bases, err := s.bases(ctx, e)
	if err != nil {
		return fmt.Errorf("reclaim: %w", err)
	}
	if s.cluster && len(bases) > most {
		slices.Sort(bases)
		first := int(s.turn.Add(int64(most))) % len(bases)
		bases = append(bases[first:], bases[:first]...)[:most]
	}
	for _, base := range bases {
		if err := s.endRecords(ctx, base, "late", epochs, limit, done); err != nil {
			return fmt.Errorf("reclaim: %w", err)
		}
	}
	return nil
}

// fence fences silent epochs, or e. It returns how many, those whose records
// are still to be ended, and those alive.
func (s *Store) fence(ctx context.Context, silenceMS int64, e budget.Epoch) (fenced int, dying, live []string, err error) {
	answer, err := s.run(ctx, &s.scripts.fence, []any{s.registry()}, []any{s.given(), silenceMS, string(e)}).Slice()
	if err != nil || len(answer) != 3 {
		return 0, nil, nil, orAnswer(err)
	}
	n, ok := answer[0].(int64)
	if !ok {
		return 0, nil, nil, errAnswer
	}
	return int(n), words(answer[1]), words(answer[2]), nil
}

func words(list any) []string {
	var all []string
	items, _ := list.([]any) // anything else is no word
	for _, item := range items {
		if word, ok := item.(string); ok {
			all = append(all, word)
		}
	}
	return all
}

// bury ends records of a fenced epoch until done has limit, and takes the epoch
// off the list of the dying when none is left.
func (s *Store) bury(ctx context.Context, e budget.Epoch, limit int, done *budget.Reclaimed) error {
	bases, err := s.bases(ctx, e)
	if err != nil {
		return err
	}
	for _, base := range bases {
		if err := s.endRecords(ctx, base, "dead", []string{string(e)}, limit, done); err != nil || done.More {
			return err
		}
	}
	return s.client.ZRem(ctx, s.registry()+":dying", string(e)).Err()
}

// endRecords calls reclaim.lua until done has limit records or none is left.
func (s *Store) endRecords(ctx context.Context, base, which string, epochs []string, limit int, done *budget.Reclaimed) error {
	for {
		args := []any{s.given(), min(reclaimBatch, max(0, limit-done.Records)), which}
		for _, e := range epochs {
			args = append(args, e)
		}
		answer, err := s.run(ctx, &s.scripts.reclaim, []any{base}, args).Slice()
		if err != nil {
			return err
		}
		more, err := ended(answer, done)
		if err != nil || !more {
			return err
		}
		if done.Records >= limit {
			done.More = true
			return nil
		}
	}
}

// ended adds the answer of reclaim.lua to done. It reports whether there is more.
func ended(answer []any, done *budget.Reclaimed) (more bool, err error) {
	if len(answer) < 2 || len(answer)%3 != 2 {
		return false, errAnswer
	}
	n, ok := answer[0].(int64)
	left, also := answer[1].(int64)
	if !ok || !also {
		return false, errAnswer
	}
	done.Records += int(n)
	for told := words(answer[2:]); len(told) >= 3; told = told[3:] {
		charged, err := strconv.ParseInt(told[2], 10, 64)
		if err != nil {
			return false, errAnswer
		}
		// On a cluster a reservation has a record for each tag of its limits.
		i := slices.IndexFunc(done.Ended, func(e budget.Ended) bool { return e.ID == told[0] })
		if i < 0 {
			i = len(done.Ended)
			done.Ended = append(done.Ended, budget.Ended{ID: told[0]})
		}
		done.Ended[i].Add(told[1], charged)
	}
	return left != 0, nil
}

// Retire implements budget.Store.
func (s *Store) Retire(ctx context.Context, e budget.Epoch) error {
	if _, _, _, err := s.fence(ctx, -1, e); err != nil {
		return fmt.Errorf("retire %s: %w", e, err)
	}
	if err := s.bury(ctx, e, 1<<30, new(budget.Reclaimed)); err != nil {
		return fmt.Errorf("retire %s: %w", e, err)
	}
	return nil
}

// OpenIDs implements budget.Store.
func (s *Store) OpenIDs(ctx context.Context, e budget.Epoch) (map[string]time.Duration, error) {
	bases, err := s.bases(ctx, e)
	if err != nil {
		return nil, err
	}
	ids := make(map[string]time.Duration)
	for _, base := range bases {
		for cursor := "0"; ; {
			answer, err := s.run(ctx, &s.scripts.list, []any{base}, []any{s.given(), string(e), cursor}).StringSlice()
			if err != nil || len(answer)%2 != 1 {
				return nil, fmt.Errorf("list reservations of %s: %w", e, orAnswer(err))
			}
			for i := 1; i < len(answer); i += 2 {
				age, err := strconv.ParseInt(strings.TrimSpace(answer[i+1]), 10, 64)
				if err != nil {
					return nil, fmt.Errorf("list reservations of %s: %w", e, err)
				}
				ids[answer[i]] = max(ids[answer[i]], time.Duration(age)*time.Millisecond)
			}
			if cursor = answer[0]; cursor == "0" {
				break
			}
		}
	}
	return ids, nil
}
