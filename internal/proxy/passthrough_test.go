package proxy

import (
	"bytes"
	"regexp"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/bedrock"
)

var signatureOf = regexp.MustCompile(`Signature=([0-9a-f]{64})$`)

// A signature is of the path and the body: one of another path is refused.
func TestARelayedCallIsSignedWithWhereItGoes(t *testing.T) {
	r := relay{Dialect: bedrock.New(), base: "https://b"}
	to := dialect.Upstream{BaseURL: "https://b", APIKey: "access:secret", Region: "us-east-1"}
	call := func(path, body string) dialect.Outbound {
		c, err := r.Parse(dialect.Request{Endpoint: dialect.Endpoint{Method: "POST", Pattern: path}, Path: path, Query: "key=sk&x=1", Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		out, err := r.Prepare(c, to)
		if err != nil || out.URL != "https://b"+path+"?x=1" || string(bytes.Join(out.Body, nil)) != body {
			t.Fatalf("%s: got %s %q, %v", path, out.URL, out.Body, err)
		}
		return out
	}
	seen := map[string]bool{}
	for _, s := range []struct{ path, body string }{{"/guardrail/a/version/1/apply", "{}"}, {"/guardrail/b/version/1/apply", "{}"}, {"/guardrail/a/version/1/apply", `{"x":1}`}} {
		out := call(s.path, s.body)
		again := out
		again.Header = dialect.Header{"Content-Type": out.Header["Content-Type"]}
		for date := ""; date != out.Header.Get("X-Amz-Date"); date = again.Header.Get("X-Amz-Date") {
			if date != "" { // a second has passed between the two
				out = call(s.path, s.body)
			}
			if err := r.Dialect.(signer).Sign(again, to); err != nil {
				t.Fatal(err)
			}
		}
		got := signatureOf.FindStringSubmatch(out.Header.Get("Authorization"))
		if len(got) == 0 || out.Header.Get("Authorization") != again.Header.Get("Authorization") || seen[got[1]] {
			t.Errorf("%s %s: signed %q, want %q", s.path, s.body, out.Header.Get("Authorization"), again.Header.Get("Authorization"))
			continue
		}
		seen[got[1]] = true
	}
}
