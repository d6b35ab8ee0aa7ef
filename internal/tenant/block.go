package tenant

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"llmgw/internal/fault"
)

// BlockScope is what a block looks at.
type BlockScope string

// The scopes of blocks.
const (
	BlockKey  BlockScope = "key"  // a key's id
	BlockTeam BlockScope = "team" // a team's name
	BlockUser BlockScope = "user" // a user, of whatever team
	BlockIP   BlockScope = "ip"   // an address, or a network such as 10.0.0.0/8
)

// Block keeps somebody out. The zero ExpiresAt is never.
type Block struct {
	ID        string     `json:"id"`
	Scope     BlockScope `json:"scope"`
	Value     string     `json:"value"`
	Reason    string     `json:"reason,omitempty"`
	ExpiresAt time.Time  `json:"expires_at,omitzero"`
}

// Expired tells whether b is over at now.
func (b *Block) Expired(now time.Time) bool {
	return !b.ExpiresAt.IsZero() && !now.Before(b.ExpiresAt)
}

// maxBlockText bounds the value and the reason of a block, in bytes.
const maxBlockText = 1 << 10

// ParseBlock reads an operator's wish for a block: scope, value, reason, and
// either expires_at (RFC 3339) or ttl (a duration such as "90m", or seconds).
// force reports whether a name that is not configured is wanted, too: the caller
// checks names. The block has no id yet. The error is a fault that names the field.
func ParseBlock(body []byte, now time.Time) (b Block, force bool, err error) {
	var wish struct {
		Block
		ExpiresAt *time.Time      `json:"expires_at"` // instead of Block's: the zero time is an end, too
		TTL       json.RawMessage `json:"ttl"`
		Force     bool            `json:"force"`
	}
	if err := decodeStrictly(body, &wish); err != nil {
		return Block{}, false, err
	}
	b = wish.Block
	b.ID = ""
	hasTTL := len(wish.TTL) > 0 && string(wish.TTL) != "null"
	switch {
	case hasTTL && wish.ExpiresAt != nil:
		return Block{}, false, fault.Invalid("ttl", "Give either ttl or expires_at, not both.")
	case hasTTL:
		ttl, err := parseTTL(wish.TTL)
		if err != nil {
			return Block{}, false, fault.Invalid("ttl", `ttl is not a positive duration such as "90m" or a number of seconds.`)
		}
		b.ExpiresAt = now.Add(ttl)
	case wish.ExpiresAt != nil && wish.ExpiresAt.IsZero():
		return Block{}, false, errPast()
	case wish.ExpiresAt != nil:
		b.ExpiresAt = *wish.ExpiresAt
	}
	return b, wish.Force, b.normalize(now)
}

// decodeStrictly reads one JSON object into wish. Unknown members are an error: a
// ttl that is misspelt would be a block for ever.
func decodeStrictly(body []byte, wish any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(wish); err != nil {
		if _, name, ok := strings.Cut(err.Error(), "unknown field "); ok {
			name = strings.Trim(name, `"`)
			return fault.Invalid(name, fmt.Sprintf("A block has no %s.", name))
		}
		if field, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			name := field.Field[strings.LastIndexByte(field.Field, '.')+1:]
			return fault.Invalid(name, fmt.Sprintf("%s has the wrong type.", cmp.Or(name, "The body")))
		}
		if _, ok := errors.AsType[*time.ParseError](err); ok {
			return fault.Invalid("expires_at", "expires_at is not a time such as 2027-01-31T12:00:00Z.")
		}
		return fault.Invalid("", "The body is not a JSON object.")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fault.Invalid("", "Something follows the JSON object.")
	}
	return nil
}

// parseTTL reads a positive duration, at most a century.
func parseTTL(raw json.RawMessage) (time.Duration, error) {
	const most = 100 * 365 * 24 * time.Hour
	var seconds int64
	if err := json.Unmarshal(raw, &seconds); err == nil && seconds > 0 && seconds <= int64(most/time.Second) {
		return time.Duration(seconds) * time.Second, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return 0, err
	}
	ttl, err := time.ParseDuration(text)
	if err == nil && (ttl <= 0 || ttl > most) {
		err = errors.New("out of range")
	}
	return ttl, err
}

func errPast() error { return fault.Invalid("expires_at", "expires_at is in the past.") }

// normalize checks b and brings an address into its usual form.
func (b *Block) normalize(now time.Time) error {
	switch b.Scope {
	case BlockKey, BlockTeam, BlockUser, BlockIP:
	default:
		return fault.Invalid("scope", "scope is key, team, user or ip.")
	}
	switch {
	case strings.TrimSpace(b.Value) == "":
		return fault.Invalid("value", "value is empty.")
	case len(b.Value) > maxBlockText:
		return fault.Invalid("value", fmt.Sprintf("value has more than %d bytes.", maxBlockText))
	case len(b.Reason) > maxBlockText:
		return fault.Invalid("reason", fmt.Sprintf("reason has more than %d bytes.", maxBlockText))
	case b.Expired(now):
		return errPast()
	}
	if b.Scope != BlockIP {
		return nil
	}
	network, ok := parseNetwork(b.Value)
	if !ok {
		return fault.Invalid("value", "value is not an address or a network such as 10.0.0.0/8.")
	}
	b.Value = network.String()
	if network.IsSingleIP() {
		b.Value = network.Addr().String()
	}
	return nil
}

// parseNetwork reads an address or a network. IPv4 in IPv6 is IPv4; a network that
// holds more than that is none, as no client's address would be in it.
func parseNetwork(s string) (netip.Prefix, bool) {
	if network, err := netip.ParsePrefix(s); err == nil {
		if ip := network.Addr(); ip.Is4In6() {
			if network.Bits() < 96 {
				return netip.Prefix{}, false
			}
			network = netip.PrefixFrom(ip.Unmap(), network.Bits()-96)
		}
		return network.Masked(), true
	}
	ip, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, false
	}
	ip = ip.Unmap().WithZone("")
	return netip.PrefixFrom(ip, ip.BitLen()), true
}
