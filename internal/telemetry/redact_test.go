package telemetry

import (
	"strings"
	"testing"
)

// Whatever stands around a secret, it does not get out.
func FuzzASecretInAnyTextIsRedacted(f *testing.F) {
	for _, around := range [][2]string{{"", ""}, {"dial: ", " refused"}, {"{\"a\":\"", "\"}"}, {"\xff\n", "\x00"}, {"é", "ß"}, {"x=", "&y"}} {
		f.Add(around[0], around[1])
	}
	const core = "Zk3vbn92QpLx81TTr5"
	f.Fuzz(func(t *testing.T, before, after string) {
		for _, secret := range []string{
			"Authorization: Bearer " + core,
			"sk-llmgw-" + core,
			"gsk_" + core,
			"AIzaSy" + core,
			"?key=" + core,
			"redis://default:" + core + "@host:6379",
			`"api_key":"` + core + `"`,
		} {
			// A separator, as between any two words of a log.
			text := before + " " + secret + " " + after
			if got := redactText(text); strings.Contains(got, core) {
				t.Errorf("%q became %q", text, got)
			}
		}
	})
}

func TestNamesOfSecretsAreKnownInAnyForm(t *testing.T) {
	for name, want := range map[string]bool{
		"authorization": true, "Authorization": true, "proxy-authorization": true, "X-API-Key": true, "x-goog-api-key": true,
		"api_key": true, "apiKeys": true, "redis.password": true, "PASSWORD": true, "client_secret": true, "Set-Cookie": true,
		"admin_token": true, "cookie": true, "aws_secret_access_key": true,
		"": false, "key": false, "key_id": false, "tokens": false, "input_tokens": false, "max_tokens": false, "monkey": false,
		"secretary": false, "authorization_ms": false, "nopassword": false, "team": false,
	} {
		if got := isSecretName(name); got != want {
			t.Errorf("isSecretName(%q) is %v, want %v", name, got, want)
		}
	}
}
