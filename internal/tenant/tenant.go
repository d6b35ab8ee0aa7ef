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
	"net/netip"

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

// Allows tells whether the team may ask for model.
func (t *Team) Allows(model string) bool {
	return t.Models == nil || t.Models[model] || t.Models[AnyModel]
}

// Key is a client's key. Its secret is known by hash alone.
type Key struct {
	ID     string
	SHA256 [32]byte
	Limits []*budget.Limit
	// Team is whose key it is; NewDirectory sets it.
	Team *Team
}

// Caller is who makes a request.
type Caller struct {
	Key  *Key
	User string     // as the request says; empty: nobody in particular
	IP   netip.Addr // as Proxies.ClientIP found it; may be invalid
}
