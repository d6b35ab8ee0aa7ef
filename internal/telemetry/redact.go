package telemetry

import (
	"encoding/json"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
)

const redacted = "[redacted]"

// secretNames are the names under which secrets travel, in headers, queries and
// configurations, alone or after a separator (redis.password). "tokens" and
// "key_id" are none.
var secretNames = []string{
	"authorization", "api_key", "api-key", "apikey", "api_keys", "api-keys", "apikeys",
	"admin_token", "access_token", "session_token", "bearer", "password", "passwd", "secret",
	"secret_access_key", "credential", "credentials", "cookie",
}

// secretText matches secrets within a text: bearer and basic credentials, keys
// by their vendors' prefixes, ?key= in an address, passwords in an address, and
// members of a JSON object that secretName would match.
var secretText = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}`,
	`\b(?:sk|pk|rk|gsk|xai|hf|r8|pplx|fw|key|tgp)[-_][A-Za-z0-9_-]{8,}`,
	`\bAIza[A-Za-z0-9_-]{16,}`,
	`\b(?:AKIA|ASIA)[A-Z0-9]{12,}`,
	`[?&](?:key|api[-_]?key|token|access_token)=[^&\s"]+`,
	`://[^/\s:@"]*:[^/\s@"]+@`,
	`"(?:proxy-)?(?:authorization|api[-_]?key|x-api-key|x-goog-api-key|password|secret|cookie|set-cookie|[a-z]+_token)"\s*:\s*(?:"[^"]*"|\[[^\]]*\])`,
}, "|"))

// plainNames are the names under which the configuration's own words stand, and
// ours: a key may be called key-frontend-prod and is no secret for it.
var plainNames = map[string]bool{
	"request_id": true, "team": true, "key_id": true, "limited_by": true, "endpoint": true, "provider": true, "provider_model": true,
}

func redactAttr(a slog.Attr) slog.Attr {
	if plainNames[a.Key] {
		return a
	}
	switch a.Value.Kind() {
	case slog.KindString:
		if isSecretName(a.Key) {
			a.Value = slog.StringValue(redacted)
			return a
		}
		if s := a.Value.String(); mayHoldSecret(s) {
			a.Value = slog.StringValue(redactText(s))
		}
	case slog.KindAny:
		if isSecretName(a.Key) {
			a.Value = slog.StringValue(redacted)
			return a
		}
		a.Value = redactAny(a.Value)
	default: // numbers, times and booleans are no secrets; groups come attribute by attribute
	}
	return a
}

func redactAny(v slog.Value) slog.Value {
	switch x := v.Any().(type) {
	case error:
		return slog.StringValue(redactText(x.Error()))
	case *url.URL:
		return slog.StringValue(redactText(x.String()))
	case []byte:
		return slog.StringValue(redactText(string(x)))
	case slog.Level: // as a text: JSON's encoder takes longer
		return slog.StringValue(x.String())
	case *slog.Source:
		return v
	}
	text, err := json.Marshal(v.Any())
	if err != nil {
		return v // the handler will say what it could not write
	}
	if clean := redactText(string(text)); clean != string(text) {
		return slog.StringValue(clean)
	}
	return v
}

func redactText(s string) string {
	if !mayHoldSecret(s) {
		return s
	}
	return secretText.ReplaceAllString(s, redacted)
}

// isSecretName tells whether name is, or ends with, one of secretNames.
func isSecretName(name string) bool {
	for _, secret := range secretNames {
		at := len(name) - len(secret)
		if at < 0 || !strings.EqualFold(name[at:], secret) {
			continue
		}
		if at == 0 || strings.IndexByte("-_.", name[at-1]) >= 0 {
			return true
		}
	}
	return false
}

// mayHoldSecret tells whether s has what every match of secretText has: cheap
// to see, so that a plain line costs no regular expression.
func mayHoldSecret(s string) bool {
	for i := 1; i < len(s); i++ {
		before := s[i-1] | 0x20 // in lower case
		switch s[i] {
		case '=', '"', '@': // ?key=…, "key": …, user:password@
			return true
		case ' ', '\t', '\n': // bearer …, basic …
			if before == 'r' || before == 'c' {
				return true
			}
		case '-', '_': // sk-…, pplx-…
			if strings.IndexByte("kif8xwyp", before) >= 0 {
				return true
			}
		case 'z', 'Z', 'k', 'K', 's', 'S': // AIza…, AKIA…, ASIA…
			if (before == 'i' || before == 'a') && len(s) > 14 && strings.ContainsAny(s, "0123456789") {
				return true
			}
		}
	}
	return false
}
