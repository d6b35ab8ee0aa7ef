package changes

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"
)

// Action is what an entry did.
type Action string

// The actions. Those that have no field of their own in Entry are there for the
// audit alone: they are done elsewhere.
const (
	KeyCreated      Action = "key_created"
	KeyChanged      Action = "key_changed"
	KeyRotated      Action = "key_rotated"
	KeyDeleted      Action = "key_deleted"
	OverrideSet     Action = "override_set"
	OverrideRemoved Action = "override_removed"
	CreditGiven     Action = "credit_given"
	LimitReset      Action = "limit_reset"
	BlockAdded      Action = "block_added"
	BlockRemoved    Action = "block_removed"
	SwitchTurned    Action = "enforcement_changed"
	Reloaded        Action = "configuration_reloaded"
)

// Entry is one change. It holds no secret.
type Entry struct {
	ID     string    `json:"id"`
	Time   time.Time `json:"time"`
	By     string    `json:"by"` // the account's name
	Action Action    `json:"action"`
	Target string    `json:"target"`         // a key's id, a limit as X-LLMGW-Limited-By names it, a block's id
	Team   string    `json:"team,omitempty"` // whose it is; empty: of no team
	Reason string    `json:"reason,omitempty"`
	// From and To are what it was and what it is, for people. null: nothing.
	From json.RawMessage `json:"from,omitempty"`
	To   json.RawMessage `json:"to,omitempty"`

	Key      *Key      `json:"key,omitempty"`      // of key_created, key_changed, key_rotated
	Override *Override `json:"override,omitempty"` // of override_set
	Credit   *Credit   `json:"credit,omitempty"`   // of credit_given
	Limit    *Limit    `json:"limit,omitempty"`    // of override_removed
	// Version is of override_removed: see Override.
	Version int64 `json:"version,omitempty"`
}

// Key is a client's key that was made at run time. Its secret is known by hash.
type Key struct {
	ID        string          `json:"id"`
	Team      string          `json:"team"`
	SHA256    string          `json:"sha256"` // hexadecimal
	Former    []Former        `json:"former,omitempty"`
	Models    []string        `json:"models"`           // nil: all that the team may use; empty: none
	Limits    json.RawMessage `json:"limits,omitempty"` // as a configuration has them
	Priority  string          `json:"priority,omitempty"`
	ExpiresAt *time.Time      `json:"expires_at,omitempty"` // nil: never
	Note      string          `json:"note,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	// Version orders the key's limits, as budget.Limit has it.
	Version int64 `json:"version"`
}

// Former is a secret that a rotation has replaced and that still works until then.
type Former struct {
	SHA256 string    `json:"sha256"`
	Until  time.Time `json:"until"`
}

// Expired reports whether the key is over at now.
func (k Key) Expired(now time.Time) bool { return k.ExpiresAt != nil && !now.Before(*k.ExpiresAt) }

// Limit names a configured limit: what it is written under, and what it counts
// over. Value is the one counter that is meant of a limit that counts by value,
// empty for all of them.
type Limit struct {
	Place string `json:"place"`
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// Override is another amount of a limit for a while.
type Override struct {
	Limit  Limit     `json:"limit"`
	Amount int64     `json:"amount"` // in budget units
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
	// Version orders the limit's rules from now on, as budget.Limit has it: above
	// that of the limit that it changes.
	Version int64 `json:"version"`
}

// Credit raises a budget's amount until it expires, at the end of the period at
// the latest.
type Credit struct {
	ID        string    `json:"id"`
	Limit     Limit     `json:"limit"`
	By        string    `json:"by"`     // as X-LLMGW-Limited-By names the limit
	Amount    int64     `json:"amount"` // in budget units
	From      time.Time `json:"from"`
	ExpiresAt time.Time `json:"expires_at"`
	Reason    string    `json:"reason"`
	Version   int64     `json:"version"` // as Override has it
	// Request names the request that gave it, Body what it asked for, both by hash.
	// Empty: it had no Idempotency-Key.
	Request string `json:"request,omitempty"`
	Body    string `json:"body,omitempty"`
}

// newID is an id that begins with kind and that nobody has had.
func newID(kind string) string { return kind + "_" + strings.ToLower(rand.Text()) }

// NewCreditID returns an id for a credit.
func NewCreditID() string { return newID("crd") }
