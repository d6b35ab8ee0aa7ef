package tenant

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// SecretPrefix begins every secret that this package makes, so that a leaked
// one is recognised.
const SecretPrefix = "sk-llmgw-"

// NewSecret makes a secret of 256 random bits, in characters that need no
// quoting anywhere, and the hash that a configuration knows it by.
func NewSecret() (secret string, hash [32]byte) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails: crypto/rand ends the program instead
	secret = SecretPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	return secret, sha256.Sum256([]byte(secret))
}
