package telemetry

import (
	"encoding/json"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
)

const redacted = "[redacted]"

// secretName matches the names under which secrets travel, in headers, queries
// and configurations. "tokens" and "key_id" are none.
var secretName = regexp.MustCompile(`(?i)^(.*[-_.])?(authorization|api[-_]?keys?|x-api-key|x-goog-api-key|admin[-_]?token|access[-_]?token|session[-_]?token|bearer|password|passwd|secret|secret[-_]?access[-_]?key|credentials?|cookie|set-cookie)$`)

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

// hints are what secretText's alternatives cannot match without: cheap to look
// for, so that a plain line costs no regular expression.
var hints = []string{"earer", "asic", "AIza", "AKIA", "ASIA", "key", "oken", "KEY", "://", "sk", "pk", "rk", "xai", "hf", "r8", "pplx", "fw", "tgp", "uthorization", "password", "secret", "ookie"}

func redactAttr(a slog.Attr) slog.Attr {
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
	case *slog.Source, slog.Level:
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

func isSecretName(name string) bool {
	return len(name) >= 6 && secretName.MatchString(name)
}

func mayHoldSecret(s string) bool {
	if len(s) < 10 {
		return false
	}
	for _, hint := range hints {
		if strings.Contains(s, hint) {
			return true
		}
	}
	return false
}
