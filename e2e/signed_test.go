package e2e

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// What the gateway signs with for AWS.
const awsRegion, awsKey, awsSecret = "us-east-1", "AKIAE2EEXAMPLE", "e2e/secret+example"

// signedOnly passes on to target what has a valid Signature Version 4 for
// Bedrock, and refuses the rest as AWS does. It is written from AWS's
// description, not with the signer that the gateway uses.
func signedOnly(target string) http.Handler {
	to, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = checkSignature(r, body)
		}
		if err != nil {
			w.Header().Set("X-Amzn-Errortype", "InvalidSignatureException")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"message":%q}`, err.Error())
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
}

// checkSignature computes r's signature again and compares.
func checkSignature(r *http.Request, body []byte) error {
	fields := map[string]string{}
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	date := r.Header.Get("X-Amz-Date")
	if !ok || len(date) < 8 {
		return fmt.Errorf("not signed: %q", r.Header.Get("Authorization"))
	}
	scope := strings.Join([]string{date[:8], awsRegion, "bedrock", "aws4_request"}, "/")
	if fields["Credential"] != awsKey+"/"+scope {
		return fmt.Errorf("the credential is %q", fields["Credential"])
	}
	var headers strings.Builder
	for name := range strings.SplitSeq(fields["SignedHeaders"], ";") {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, strings.TrimSpace(value))
	}
	canonical := strings.Join([]string{
		r.Method, strings.ReplaceAll(r.URL.EscapedPath(), "%", "%25"), r.URL.RawQuery, headers.String(), fields["SignedHeaders"], hash(body),
	}, "\n")
	toSign := strings.Join([]string{"AWS4-HMAC-SHA256", date, scope, hash([]byte(canonical))}, "\n")
	key := []byte("AWS4" + awsSecret)
	for _, part := range append(strings.Split(scope, "/"), toSign) {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(part))
		key = m.Sum(nil)
	}
	if got := hex.EncodeToString(key); got != fields["Signature"] {
		return fmt.Errorf("the signature of\n%s\nis %s, not %s", canonical, got, fields["Signature"])
	}
	return nil
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
