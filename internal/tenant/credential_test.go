package tenant

import (
	"errors"
	"net/textproto"
	"strings"
	"testing"
)

func TestCredentials(t *testing.T) {
	const sigV4 = "AWS4-HMAC-SHA256 Credential=AKIA/20261129/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=ab"
	type headers = textproto.MIMEHeader
	for _, s := range []struct {
		what  string
		h     headers
		query string
		want  string
	}{
		{"none", nil, "", ""},
		{"as OpenAI's clients send it", headers{"Authorization": {"Bearer sk-1"}}, "", "sk-1"},
		{"in lower case", headers{"Authorization": {"bearer sk-1"}}, "", "sk-1"},
		{"in upper case, with spaces", headers{"Authorization": {" BEARER   sk-1 "}}, "", "sk-1"},
		{"as Anthropic's older ones", headers{"X-Api-Key": {"sk-1"}}, "", "sk-1"},
		{"as Azure's", headers{"Api-Key": {"sk-1"}}, "", "sk-1"},
		{"as Gemini's", headers{"X-Goog-Api-Key": {"sk-1"}}, "", "sk-1"},
		{"in the query", nil, "key=sk-1", "sk-1"},
		{"in the middle of a query", nil, "alt=sse&key=sk-1&x=y", "sk-1"},
		{"escaped", nil, "k%65y=sk%2D1", "sk-1"},
		{"badly escaped", nil, "key=sk%zz1", "sk%zz1"},
		{"of another name", nil, "monkey=sk-1&keys=sk-2&KEY=sk-3", ""},
		{"without a value", nil, "key&key=", ""},

		{"twice the same", headers{"Authorization": {"Bearer sk-1"}, "X-Api-Key": {"sk-1"}}, "key=sk-1", "sk-1"},
		{"two that differ", headers{"Authorization": {"Bearer sk-1"}, "X-Api-Key": {"sk-2"}}, "", ""},
		{"two that differ, as two lines", headers{"Authorization": {"Bearer sk-1", "Bearer sk-2"}}, "", ""},
		{"two that differ, one in the query", headers{"Api-Key": {"sk-1"}}, "key=sk-2", ""},
		{"two that differ, then the first again", headers{"X-Api-Key": {"sk-1", "sk-2", "sk-1"}}, "", ""},
		{"one of them empty", headers{"Authorization": {"Bearer "}, "X-Api-Key": {"sk-1"}}, "", "sk-1"},

		{"an AWS signature", headers{"Authorization": {sigV4}}, "", ""},
		{"an AWS signature beside a key", headers{"Authorization": {sigV4}, "X-Api-Key": {"sk-1"}}, "", "sk-1"},
		{"a user and password", headers{"Authorization": {"Basic c2stMTpzay0x"}}, "", ""},
		{"no scheme", headers{"Authorization": {"sk-1"}}, "", ""},
		{"a scheme alone", headers{"Authorization": {"Bearer"}}, "", ""},
		{"a scheme that only begins so", headers{"Authorization": {"Bearersk-1"}}, "", ""},
	} {
		got, err := Credential(s.h, s.query)
		if got != s.want {
			t.Errorf("%s: got %q, want %q", s.what, got, s.want)
		}
		why := ErrNoCredential
		if strings.HasPrefix(s.what, "two that differ") {
			why = ErrSeveralCredentials
		}
		if got == "" && !errors.Is(err, why) || got != "" && err != nil {
			t.Errorf("%s: got the error %v", s.what, err)
		}
	}
}

func TestFindingACredentialDoesNotAllocate(t *testing.T) {
	h := textproto.MIMEHeader{"Authorization": {"Bearer sk-llmgw-0123456789"}, "Content-Type": {"application/json"}}
	if got := testing.AllocsPerRun(100, func() { _, _ = Credential(h, "alt=sse&api-version=2024-10-21") }); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}
