package gatewaytest

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
)

// SHA256 is the hash of a key, as the configuration wants it.
func SHA256(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Answer is a whole answer of the gateway.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Code is the gateway's own error code, or empty.
func (a Answer) Code() string { return a.Header.Get("X-LLMGW-Error-Code") }

// LimitedBy is the limit that refused the request, or empty.
func (a Answer) LimitedBy() string { return a.Header.Get("X-LLMGW-Limited-By") }

// Post sends a JSON body with a key and reads the whole answer. Headers are
// given in pairs of name and value. A connection that breaks fails the test.
func (g *Gateway) Post(key, path, body string, headers ...string) Answer {
	g.t.Helper()
	a, err := g.Try(key, path, body, headers...)
	if err != nil {
		g.t.Fatalf("POST %s: %v", path, err)
	}
	return a
}

// Try is Post for answers that may break: it returns what was read and how it
// ended. It may be used by several goroutines.
func (g *Gateway) Try(key, path, body string, headers ...string) (Answer, error) {
	resp, err := g.Open(key, path, body, headers...)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	b, err := io.ReadAll(resp.Body)
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(b)}, err
}

// Open sends a request and returns as soon as the headers are there, for
// streams. The caller closes the body.
func (g *Gateway) Open(key, path, body string, headers ...string) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodPost, g.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return client.Do(r)
}

// client has no limit of its own that a test could run into.
var client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256}}
