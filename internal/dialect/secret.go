package dialect

import (
	"slices"
	"strings"
)

// The words of a header's name by which it may hold a credential: anywhere in the
// name, or as its end.
var (
	secretWords = []string{"auth", "authorization", "authenticate", "authentication", "cookie", "cookie2", "credential", "credentials", "bearer", "jwt", "password", "secret", "session"}
	secretEnds  = []string{"key", "apikey", "token", "signature", "assertion", "sid"}
)

// Secretive reports whether a header may hold a credential, by its name: what is
// not known to hold none is taken to, such as X-Vault-Token, Cf-Access-Client-Secret
// or Ocp-Apim-Subscription-Key.
func Secretive(name string) bool {
	if harmless[name] {
		return false
	}
	for rest := name; rest != ""; {
		word, more := rest, ""
		if i := strings.IndexAny(rest, "-_"); i >= 0 {
			word, more = rest[:i], rest[i+1:]
		}
		same := func(other string) bool { return len(other) == len(word) && strings.EqualFold(other, word) }
		if slices.ContainsFunc(secretWords, same) || more == "" && slices.ContainsFunc(secretEnds, same) {
			return true
		}
		rest = more
	}
	return false
}

// harmless are the headers, in canonical form, whose names only sound like it.
var harmless = map[string]bool{
	"Idempotency-Key": true, "X-Idempotency-Key": true,
	"Session_id": true, "Session-Id": true, "X-Session-Id": true, "X-Claude-Code-Session-Id": true, "X-Session-Affinity": true, // of a conversation
	"Azureml-Model-Session": true,
}
