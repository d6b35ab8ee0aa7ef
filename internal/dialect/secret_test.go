package dialect

import (
	"net/textproto"
	"testing"
)

func TestAHeaderThatMayHoldACredentialIsKnownByItsName(t *testing.T) {
	for name, want := range map[string]bool{
		"Authorization": true, "Proxy-Authorization": true, "Www-Authenticate": true, "Proxy-Authenticate": true, "X-Auth-User": true,
		"Cookie": true, "Set-Cookie": true, "X-Api-Key": true, "Api-Key": true, "Apikey": true, "X-Goog-Api-Key": true, "Ocp-Apim-Subscription-Key": true,
		"X-Vault-Token": true, "Cf-Access-Client-Secret": true, "X-Amz-Security-Token": true, "Private-Token": true, "X-Session": true, "X-Jwt": true,
		"Helicone-Auth": true, "Cf-Aig-Authorization": true, "X-Hub-Signature": true, "x_api_key": true,
		"Idempotency-Key": false, "session_id": false, "X-Claude-Code-Session-Id": false, "Azureml-Model-Session": false,
		"Accept": false, "User-Agent": false, "Content-Type": false, "Anthropic-Beta": false, "Anthropic-Version": false, "X-Stainless-Retry-Count": false,
		"X-Request-Id": false, "Traceparent": false, "X-Amzn-Bedrock-Input-Token-Count": false, "X-Custom": false, "X-Author": false, "": false,
	} {
		if got := Secretive(textproto.CanonicalMIMEHeaderKey(name)); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
