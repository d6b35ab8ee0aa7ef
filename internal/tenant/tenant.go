// Package tenant knows who asks: which key a secret is, which team it belongs
// to, from what address the call came, and whether it is blocked.
//
// tenant.go says what teams, keys and callers are, directory.go finds them by
// secret, secret.go makes secrets, credential.go finds a secret in a request,
// address.go the client's address behind proxies, and block.go, blocks.go,
// blockindex.go and blockstore.go are the list of those who may not call.
//
// It does not read configuration, decide limits or write responses. Nothing in
// it creates state for a caller who is not known.
package tenant

import (
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
)

// AnyModel in Team.Models allows every model.
const AnyModel = "*"

// Team is a group of keys with budgets of its own.
type Team struct {
	Name string
	// Models are the names that the team may ask for. nil: every name; empty: none.
	Models map[string]bool
	// Weight is the team's share when a provider's capacity is short, at least 1.
	Weight int
	Limits []*budget.Limit
	Keys   []Key
}

// Allows reports whether the team may ask for model.
func (t *Team) Allows(model string) bool { return allows(t.Models, model) }

func allows(models map[string]bool, model string) bool {
	return models == nil || models[model] || models[AnyModel]
}

// Key is a client's key. Its secret is known by hash alone.
type Key struct {
	ID     string
	SHA256 [32]byte
	// Models are those of the team's models that the key may ask for. nil: all.
	Models map[string]bool
	Limits []*budget.Limit
	// Former are the hashes of other secrets that still work.
	Former [][32]byte
	// LastUsed is when a request came with the key, in Unix seconds. nil: nobody asks.
	LastUsed *atomic.Int64
	// Team is whose key it is; NewDirectory sets it.
	Team *Team
}

// Allows reports whether the key may ask for model: its team must allow it, too.
func (k *Key) Allows(model string) bool {
	return k.Team.Allows(model) && allows(k.Models, model)
}

// Use notes that a request came with the key at now.
func (k *Key) Use(now time.Time) {
	if at := now.Unix(); k.LastUsed != nil && k.LastUsed.Load() < at {
		k.LastUsed.Store(at)
	}
}

// Named lists the models that the key or its team names, each once, in no order.
func (k *Key) Named() []string {
	names := maps.Clone(k.Team.Models)
	if names == nil {
		names = map[string]bool{}
	}
	maps.Copy(names, k.Models)
	return slices.Collect(maps.Keys(names))
}

// Caller is who makes a request.
type Caller struct {
	Key  *Key
	User string     // as the request says; empty: nobody in particular
	IP   netip.Addr // as Proxies.ClientIP found it; may be invalid
}
