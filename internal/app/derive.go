package app

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/changes"
	"llmgw/internal/config"
	"llmgw/internal/database"
)

// changesEvery is how often the changes of other gateways are read.
const changesEvery = 300 * time.Millisecond

// inDatabase reports whether what the gateways share beside counters is in the
// database: PostgreSQL, which all of them have, or SQLite where one gateway counts by
// itself. Else it is in the Redis of the limits, or in memory.
func (a *App) inDatabase(c *config.Config) bool {
	kind := a.database.Kind()
	return kind == database.Postgres || kind == database.SQLite && c.Store.Kind != "redis"
}

// changesLog is where changes at run time are kept.
func (a *App) changesLog(c *config.Config) changes.Log {
	if a.inDatabase(c) {
		return changes.NewSQL(a.database)
	}
	return a.backing.changes
}

// followChanges puts in force what operators change at any gateway, and what ends by
// itself, until ctx ends.
func (a *App) followChanges(ctx context.Context) {
	tick := time.NewTicker(changesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		a.readChanges(ctx)
		if due := a.nextChange.Load(); due != 0 && time.Now().UnixMilli() >= due {
			a.rederive()
		}
	}
}

// readChanges reads the changes that are new. While their store is away, what is
// known stays in force.
func (a *App) readChanges(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	err := a.changes.Refresh(ctx)
	if was := a.changesAway.Swap(err != nil); err != nil && !was {
		a.log.Warn("changes at run time cannot be read: those that are known stay in force", "error", err.Error())
	}
}

// rederive puts the file's configuration in force as it is changed now.
func (a *App) rederive() {
	if a.gateway == nil { // New puts it in force
		return
	}
	a.reloading.Lock()
	defer a.reloading.Unlock()
	c := a.inForce(a.file.Load())
	compiled, err := a.compile(c, a.providers)
	if err != nil {
		a.log.Error("a change at run time cannot be put in force", "error", err.Error())
		return
	}
	a.gateway.Replace(compiled.rules)
	a.config.Store(c)
}

// inForce is file with the keys, overrides and credits of now.
func (a *App) inForce(file *config.Config) *config.Config {
	now, state := time.Now(), a.changes.State()
	if next := state.Next(now); next.IsZero() {
		a.nextChange.Store(0)
	} else {
		a.nextChange.Store(next.UnixMilli())
	}
	c := *file
	apply := func(limits []*budget.Limit) []*budget.Limit {
		limits = slices.Clone(limits)
		for i, l := range limits {
			limits[i] = state.Apply(l, now)
		}
		return limits
	}
	c.Limits = apply(c.Limits)
	c.Models = slices.Clone(c.Models)
	for i := range c.Models {
		c.Models[i].Limits = apply(c.Models[i].Limits)
	}
	made := a.madeKeys(file, state, now)
	c.Teams = slices.Clone(c.Teams)
	for i := range c.Teams {
		t := &c.Teams[i]
		t.Limits, t.Keys = apply(t.Limits), slices.Concat(t.Keys, made[t.Name])
		for j := range t.Keys {
			t.Keys[j].Limits = apply(t.Keys[j].Limits)
		}
	}
	return &c
}

// madeKeys are the keys that were made at run time and are valid at now, by their
// teams. One that the file has too, by its id or by its secret, is the file's: somebody
// has moved it there.
func (a *App) madeKeys(file *config.Config, state *changes.State, now time.Time) map[string][]config.Key {
	ids, hashes := map[string]bool{}, map[[32]byte]bool{}
	for _, t := range file.Teams {
		for _, k := range t.Keys {
			ids[k.ID], hashes[k.SHA256] = true, true
		}
	}
	made := map[string][]config.Key{}
	for _, k := range state.Keys() {
		if k.Expired(now) {
			continue
		}
		key, err := compileKey(file, k, now)
		if err != nil {
			a.log.Error("a key that was made at run time is not in force", "key", k.ID, "error", err.Error())
			continue
		}
		if ids[k.ID] || hashes[key.SHA256] {
			a.log.Warn("a key of the configuration stands for the one that was made at run time", "key", k.ID)
			continue
		}
		key.Former = slices.DeleteFunc(key.Former, func(h [32]byte) bool { return hashes[h] })
		made[k.Team] = append(made[k.Team], key)
	}
	return made
}

// compileKey is k as a configuration has keys.
func compileKey(file *config.Config, k changes.Key, now time.Time) (config.Key, error) {
	key := config.Key{ID: k.ID, Models: k.Models}
	var err error
	if key.SHA256, err = hashOf(k.SHA256); err != nil {
		return config.Key{}, err
	}
	for _, f := range k.Former {
		hash, err := hashOf(f.SHA256)
		if err != nil {
			return config.Key{}, err
		}
		if now.Before(f.Until) {
			key.Former = append(key.Former, hash)
		}
	}
	if len(k.Limits) > 0 {
		key.Limits, err = file.KeyLimits(k.Team, key, k.Limits, k.Version)
	}
	return key, err
}

// hashOf reads a hash as changes have it.
func hashOf(text string) (hash [32]byte, err error) {
	if hex.DecodedLen(len(text)) != len(hash) {
		return hash, fmt.Errorf("a hash of %d characters", len(text))
	}
	_, err = hex.Decode(hash[:], []byte(text))
	return hash, err
}

// usedKeys is when each key was last used, here. The zero usedKeys is ready.
type usedKeys struct {
	mu    sync.Mutex
	times map[string]*atomic.Int64 // by the key's id, in Unix seconds
	saved map[string]int64
}

// usedMap is what the gateways share of it.
const usedMap = "keys-used"

// of returns where uses of the key are noted.
func (u *usedKeys) of(id string) *atomic.Int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.times == nil {
		u.times, u.saved = map[string]*atomic.Int64{}, map[string]int64{}
	}
	if u.times[id] == nil {
		u.times[id] = new(atomic.Int64)
	}
	return u.times[id]
}

// fresh are the uses that were not saved yet.
func (u *usedKeys) fresh() map[string]int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	fresh := map[string]int64{}
	for id, t := range u.times {
		if at := t.Load(); at > u.saved[id] {
			fresh[id] = at
		}
	}
	return fresh
}

// saveUsed tells the other gateways which keys were used here.
func (a *App) saveUsed(ctx context.Context) {
	fresh := a.used.fresh()
	fields := make(map[string]string, len(fresh))
	for id, at := range fresh {
		fields[id] = strconv.FormatInt(at, 10)
	}
	if len(fields) == 0 || a.backing.shared.SetAll(ctx, usedMap, fields) != nil {
		return // they are saved with a later refresh
	}
	a.used.mu.Lock()
	defer a.used.mu.Unlock()
	maps.Copy(a.used.saved, fresh)
}

// lastUsed is when each key was last used, at any gateway; what the others did in
// the last seconds may be missing.
func (a *App) lastUsed(ctx context.Context) (map[string]time.Time, error) {
	all, err := a.backing.shared.Fields(ctx, usedMap)
	if err != nil {
		return nil, err
	}
	used := map[string]time.Time{}
	note := func(id string, at int64) {
		if t := time.Unix(at, 0).UTC(); at > 0 && t.After(used[id]) {
			used[id] = t
		}
	}
	for id, text := range all {
		if at, err := strconv.ParseInt(text, 10, 64); err == nil {
			note(id, at)
		}
	}
	for id, at := range a.used.fresh() {
		note(id, at)
	}
	return used, nil
}
