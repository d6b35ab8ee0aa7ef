package e2e

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// ids are what differs between two answers of the simulated provider to the
// same request.
var ids = regexp.MustCompile(`sim\d+|"created(_at)?":\d+`)

// fetch sends a request and returns status, type, encoding and body; ended is
// how the body ended.
func fetch(t *testing.T, base, path, body string) (head, text string, ended error) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept-Encoding", "gzip")
	r.Header.Set("Authorization", "Bearer "+plainKey(openaiSuite))
	resp, err := raw.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	h := resp.Header
	return resp.Status + " " + h.Get("Content-Type") + " " + h.Get("Content-Encoding") + " " + h.Get("Retry-After-Ms"), ids.ReplaceAllString(string(b), "#"), err
}

// raw leaves bodies as they come.
var raw = &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: 30 * time.Second}

// TestAClientSeesWhatTheProviderSends compares what comes through the gateway
// with what comes without it, byte for byte: also where the gateway asks for
// usage that the client does not see.
func TestAClientSeesWhatTheProviderSends(t *testing.T) {
	if here.direct {
		t.Skip("there is nothing in between")
	}
	const usage = `,"stream_options":{"include_usage":true}`
	for _, s := range []struct{ words, more string }{
		{"out5", ""},
		{"out5", `,"stream":true`},
		{"out5", `,"stream":true` + usage},
		{"out5", `,"stream":true,"n":3`},
		{"out5", `,"stream":true,"n":3` + usage},
		{"out5-crlf", `,"stream":true`},
		{"out5-crlf", `,"stream":true` + usage},
		{"out5-cr", `,"stream":true`},
		{"out5-cr", `,"stream":true` + usage},
		{"out5-bom-comments-nospace", `,"stream":true`},
		{"out5-bom-comments-nospace", `,"stream":true` + usage},
		{"out5-lines", `,"stream":true`},
		{"out5-lines-noblank", `,"stream":true` + usage},
		{"out5-noblank", `,"stream":true`},
		{"out5-noblank-crlf", `,"stream":true` + usage},
		{"out5-bytes", `,"stream":true`},
		{"out5-bytes-crlf", `,"stream":true` + usage},
		{"out20-wide-bytes", `,"stream":true`},
		{"out5-onfinish", `,"stream":true` + usage},
		{"out5-onfinish", `,"stream":true`},
		{"out5-continuous", `,"stream":true` + usage},
		{"out5-continuous", `,"stream":true`},
		{"out5-nousage", `,"stream":true` + usage},
		{"out5-zerousage", `,"stream":true` + usage},
		{"out0", `,"stream":true` + usage},
		{"chunks3-big200k", `,"stream":true`},
		{"chunks3-big2m", `,"stream":true` + usage},
		{"out300-chunks300", `,"stream":true`},
		{"out5-tool", `,"stream":true,"tools":[{"type":"function","name":"f","function":{"name":"f"}}]`},
		{"out5-tool", `,"tools":[{"type":"function","name":"f","function":{"name":"f"}}]`},
		{"size400k", ""},
		{"wide-out50", ""},
		{"out5-nousage", ""},
		{"fail400", ""},
		{"fail400", `,"stream":true`},
		{"fail500", ""},
		{"badjson", ""},
		{"html", ""},
	} {
		for _, api := range []struct{ path, body string }{
			{"/v1/chat/completions", `"messages":[{"role":"user","content":"Say"}],"max_tokens":400`},
			{"/v1/completions", `"prompt":"Say","max_tokens":400`},
			{"/v1/responses", `"input":"Say"`},
			{"/v1/messages", `"messages":[{"role":"user","content":"Say"}],"max_tokens":400`},
		} {
			more := s.more
			if strings.Contains(s.more, usage) && !strings.HasSuffix(api.path, "completions") {
				continue // only these have stream_options
			}
			body := `{"model":"sim-in9-` + s.words + `",` + api.body + more + `}`
			t.Run(api.path+" "+s.words+more, func(t *testing.T) {
				wantHead, want, wantErr := fetch(t, here.provider, api.path, body)
				head, got, err := fetch(t, here.url, api.path, body)
				if head != wantHead {
					t.Errorf("head = %q, want %q", head, wantHead)
				}
				if got != want {
					at := 0
					for at < min(len(got), len(want)) && got[at] == want[at] {
						at++
					}
					t.Errorf("%d bytes, want %d; they part at %d:\n got …%.300q\nwant …%.300q", len(got), len(want), at, got[max(0, at-80):], want[max(0, at-80):])
				}
				if (err == nil) != (wantErr == nil) {
					t.Errorf("it ended with %v, want %v", err, wantErr)
				}
			})
		}
	}
}
