package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	"llmgw/internal/dialect"
)

// scoped returns h with its idempotency keys as team's own: all teams share the
// provider's account, and two that choose the same key must not meet there. h is
// not changed.
func scoped(h dialect.Header, team string) dialect.Header {
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if key := h.Get(name); key != "" {
			sum := sha256.Sum256([]byte(team + "\x00" + key))
			h = maps.Clone(h)
			h.Set(name, "llmgw-"+hex.EncodeToString(sum[:16]))
		}
	}
	return h
}
