package dialecttest

import (
	"bytes"
	"compress/gzip"
	"io"
	"slices"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

func testRequests(t *testing.T, s Suite) {
	seen := map[string]bool{}
	for _, r := range Requests(t, Root) {
		if !slices.Contains(s.Requests, r.Dialect) || slices.Contains(s.Elsewhere, r.File) {
			continue
		}
		seen[r.Dialect] = true
		t.Run(r.File, func(t *testing.T) { testRequest(t, s.Dialect, r) })
	}
	for _, name := range s.Requests {
		if !seen[name] {
			t.Errorf("no recorded request is of %s", name)
		}
	}
}

// Request makes what a server would see of a call to a dialect; ok is false if
// it has no such endpoint.
func Request(d dialect.Dialect, method, target string, header dialect.Header, body []byte) (r dialect.Request, ok bool) {
	path, query, _ := strings.Cut(target, "?")
	for _, e := range d.Endpoints() {
		if params, matches := dialect.Match(e.Pattern, path); matches && e.Method == method {
			return dialect.Request{Endpoint: e, Path: path, Query: query, Header: header, Body: body, Params: params}, true
		}
	}
	return r, false
}

// Parse lets a dialect parse a POST of body to target, which must be an endpoint.
func Parse(t testing.TB, d dialect.Dialect, target, body string, header dialect.Header) (*dialect.Call, error) {
	t.Helper()
	r, ok := Request(d, "POST", target, header, []byte(body))
	if !ok {
		t.Fatalf("%s is no endpoint", target)
	}
	return d.Parse(r)
}

func testRequest(t *testing.T, d dialect.Dialect, r Recorded) {
	header := dialect.Header{}
	for name, value := range r.Headers {
		header.Set(name, value)
	}
	body := r.Body
	if strings.HasSuffix(r.File, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	sent, ok := Request(d, r.Method, r.Path, header, body)
	if !ok {
		t.Fatalf("%s %s is no endpoint", r.Method, r.Path)
	}
	checkBroken(t, d, sent)
	before := bytes.Clone(body)
	c, err := d.Parse(sent)
	if r.Invalid {
		if f := fault.From(err); err == nil || f.Code != fault.InvalidRequest {
			t.Errorf("got %v, want an invalid request", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	checkCall(t, r, c)
	checkPrepared(t, d, c)
	if !bytes.Equal(before, body) {
		t.Error("the body was changed")
	}
}

// checkBroken sends bodies to a request's endpoint that are none.
func checkBroken(t *testing.T, d dialect.Dialect, r dialect.Request) {
	t.Helper()
	for _, body := range []string{
		"", " ", "[]", "7", `"x"`, "null", "{", `{"a":1,}`, `{"a":1}{}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, "not json", "\x00", "{\"a\":\"\x01\"}",
		`{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`,
	} {
		r.Body = []byte(body)
		_, err := d.Parse(r)
		if f := fault.From(err); err == nil || f.Code != fault.InvalidRequest || f.Message == "" {
			t.Errorf("%.30q: got %v, want an invalid request", body, err)
		}
	}
	r.Body = []byte("a=1&b=2")
	r.Header = dialect.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	if _, err := d.Parse(r); err == nil || !strings.Contains(fault.From(err).Message, "Content-Type") {
		t.Errorf("a form: got %v, want to be told of its Content-Type", err)
	}
}

func checkCall(t *testing.T, r Recorded, c *dialect.Call) {
	t.Helper()
	if c.Model != deref(r.Model) {
		t.Errorf("model is %q, want %q", c.Model, deref(r.Model))
	}
	if c.Stream != r.Stream {
		t.Errorf("stream is %v, want %v", c.Stream, r.Stream)
	}
	if c.WantsUsage != r.Usage {
		t.Errorf("wants usage is %v, want %v", c.WantsUsage, r.Usage)
	}
	choices := tokens.Count(r.N * max(r.Prompts, 1))
	if c.Choices != choices {
		t.Errorf("choices is %d, want %d", c.Choices, choices)
	}
	switch {
	case r.Max == nil:
		if c.HasMaxOutput || c.NoOutput {
			t.Errorf("a bound of %d was read, want none", c.MaxOutput)
		}
	case *r.Max == 0:
		if !c.NoOutput {
			t.Error("the call may have output, want none")
		}
	default:
		if !c.HasMaxOutput || c.MaxOutput != tokens.Count(*r.Max) {
			t.Errorf("bound is %d (%v), want %d", c.MaxOutput, c.HasMaxOutput, *r.Max)
		}
	}
}

// checkPrepared tests what is true of all outbound calls: the same model and no
// wishes leave the body as it is, and no credential of the client's is passed.
func checkPrepared(t *testing.T, d dialect.Dialect, c *dialect.Call) {
	t.Helper()
	call := *c
	call.Header = dialect.Header{}
	for name, values := range c.Header {
		call.Header[name] = values
	}
	const secret = "client-secret"
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie", "X-Llmgw-User", "X-Hop"} {
		call.Header.Set(name, secret)
	}
	call.Header.Set("Connection", "close, x-hop")
	call.Query = strings.Trim(call.Query+"&key="+secret, "&")
	out, err := d.Prepare(&call, dialect.Upstream{
		Provider: "p", BaseURL: "https://api.example/base/", APIKey: "provider-key", Model: c.Model, APIVersion: "2024-10-21", Region: "us-east-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Join(out.Body, nil); !bytes.Equal(got, c.Request.Body) {
		t.Errorf("the body was changed: %s", difference(got, c.Request.Body))
	}
	if !strings.HasPrefix(out.URL, "https://api.example/base/") {
		t.Errorf("the URL is %s", out.URL)
	}
	if strings.Contains(out.URL, secret) {
		t.Errorf("the client's key is in %s", out.URL)
	}
	passed := false
	for name, values := range out.Header {
		for _, value := range values {
			passed = passed || strings.Contains(value, "provider-key")
			if strings.Contains(value, secret) {
				t.Errorf("the client's %s is passed on", name)
			}
		}
	}
	if !passed {
		t.Error("the provider's key is missing")
	}
	for _, name := range []string{"Connection", "Content-Length", "Host"} {
		if out.Header.Get(name) != "" {
			t.Errorf("%s is passed on", name)
		}
	}
	if out.Header.Get("Accept-Encoding") == "" {
		t.Error("Accept-Encoding is left to the transport")
	}
}
