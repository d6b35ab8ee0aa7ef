package blackbox

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"llmgw/internal/dialect/dialecttest"
	"llmgw/internal/gatewaytest"
)

// TestEveryRecordedAnswerIsRelayedAndCharged compares what a client gets through
// the running gateway, and what it is charged, with what is known of each
// recording.
func TestEveryRecordedAnswerIsRelayedAndCharged(t *testing.T) {
	all := replay{}
	for _, a := range dialecttest.Answers(t, fixtures()) {
		if _, ok := sources[a.Dialect]; ok {
			all[a.File] = a
		}
	}
	w := onReplay(t, all)
	for _, a := range all {
		got, err := w.askFor(a, askUsage)
		checkRelayed(t, a, got, err)
	}
	w.Eventually("counted", eventually, func() bool {
		m := w.Metrics()
		return m.Sum("llmgw_requests_total") >= float64(len(all)) && m.Sum("llmgw_reservations_open") == 0
	})
	m := w.Metrics()
	for _, a := range all {
		checkCharged(t, a, m)
	}
	t.Logf("%d recordings", len(all))
}

// checkRelayed checks the bytes that a client got.
func checkRelayed(t *testing.T, a dialecttest.Answer, got gatewaytest.Answer, err error) {
	t.Helper()
	switch {
	case refusesCredential(a):
		if got.Status != 502 || err != nil || got.Code() != "upstream_error" || strings.Contains(got.Body, "sk-") {
			t.Errorf("%s: a refusal of the gateway's credential: got %d, %v\n%s", a.File, got.Status, err, got.Body)
		}
	case failsFirst(a):
		if got.Status < 400 || err != nil || !json.Valid([]byte(got.Body)) {
			t.Errorf("%s: a stream that begins with an error: got %d, %v\n%s", a.File, got.Status, err, got.Body)
		}
	case a.Stream && !a.Complete && a.Error == nil:
		if got.Status != 200 || err == nil || !strings.HasPrefix(got.Body, string(a.Body)) {
			t.Errorf("%s: a stream that was cut: got %d, %v, want the bytes and a broken connection\n%.300q\n%.300q", a.File, got.Status, err, got.Body, a.Body)
		}
	case got.Status != a.HTTP.Status || got.Body != string(a.Body):
		t.Errorf("%s: got %d, %v, want %d and the same bytes\n got %.300q\nwant %.300q", a.File, got.Status, err, a.HTTP.Status, got.Body, a.Body)
	case got.Header.Get("Content-Type") != a.HTTP.ContentType:
		t.Errorf("%s: the content type is %q, want %q", a.File, got.Header.Get("Content-Type"), a.HTTP.ContentType)
	}
}

// failsFirst reports whether a stream fails before it has content.
func failsFirst(a dialecttest.Answer) bool {
	return a.Stream && a.HTTP.Status < 400 && a.Error != nil && (a.Extra.ContentText == nil || *a.Extra.ContentText == "") && a.Output == nil
}

// refusesCredential reports whether an error is about the key that asks, or its
// quota.
func refusesCredential(a dialecttest.Answer) bool {
	return a.HTTP.Status == 401 || a.HTTP.Status == 402 ||
		a.HTTP.Status == 429 && (strings.Contains(a.File, "spen") || strings.Contains(a.File, "-day"))
}

// checkCharged checks what a recording came to in the metrics.
func checkCharged(t *testing.T, a dialecttest.Answer, m gatewaytest.Metrics) {
	t.Helper()
	name := model(a.File)
	tokens := func(kind string) int64 {
		return int64(m.Sum("llmgw_tokens_total", "model", name, "kind", kind) + m.Sum("llmgw_token_details_total", "model", name, "kind", kind))
	}
	estimated := m.Sum("llmgw_settlements_estimated_total", "model", name)
	outcome := "none"
	for _, s := range m {
		if s.Name == "llmgw_requests_total" && s.Labels["model"] == name {
			outcome = s.Labels["outcome"]
		}
	}
	unsaid := a.Stream && a.Error != nil && a.Output == nil && (a.Extra.ContentText == nil || *a.Extra.ContentText == "") // it failed before it said anything
	free := a.HTTP.Status >= 400 || unsaid || strings.HasSuffix(a.Dialect, "count_tokens")
	if free {
		if in, out := tokens("input"), tokens("output"); in != 0 || out != 0 || estimated != 0 {
			t.Errorf("%s: charged %d + %d (estimated: %v), want nothing", a.File, in, out, estimated)
		}
	} else {
		for _, side := range []struct {
			kind string
			want *int64
		}{{"input", a.Input}, {"output", a.Output}, {"cached_input", a.Cached}, {"cache_write", a.Written}, {"reasoning", a.Reasoning}} {
			if got := tokens(side.kind); side.want != nil && got != *side.want {
				t.Errorf("%s: charged %s of %d, want %d", a.File, side.kind, got, *side.want)
			}
		}
		if known := a.Input != nil && a.Output != nil; known != (estimated == 0) && a.Dialect != "ollama.embed" {
			t.Errorf("%s: estimated is %v, but the provider told %v", a.File, estimated, known)
		}
	}
	want := "completed"
	switch {
	case a.HTTP.Status >= 400 || !a.Complete && a.Error != nil:
		want = "upstream_error"
	case !a.Complete && a.Stream:
		want = "upstream_truncated"
	}
	if outcome != want {
		t.Errorf("%s: the outcome is %s, want %s", a.File, outcome, want)
	}
}

// reportsUnasked are the flavors that are not asked for usage: what they send is
// theirs to show.
var reportsUnasked = map[string]bool{"mistral": true, "perplexity": true, "deepseek": true, "groq": true, "openrouter": true, "fireworks": true}

// TestUsageIsHiddenInRecordedStreams asks for OpenAI's streams without usage.
func TestUsageIsHiddenInRecordedStreams(t *testing.T) {
	all := replay{}
	for _, a := range dialecttest.Answers(t, fixtures()) {
		s, ok := sources[a.Dialect]
		if ok && (s.path == chat || s.path == "/v1/completions" || s.dialect == "azure") && a.Stream && a.HTTP.Status < 400 && a.Error == nil && a.HTTP.Headers["content-encoding"] == "" {
			all[a.File] = a
		}
	}
	w := onReplay(t, all)
	for _, a := range all {
		got, err := w.askFor(a, "")
		if (err == nil) != a.Complete {
			t.Errorf("%s: it ended with %v", a.File, err)
		}
		want, seen := dialecttest.Visible(a.Body), dialecttest.Events([]byte(got.Body))
		if reportsUnasked[sources[a.Dialect].flavor] {
			want = dialecttest.Events(a.Body)
		}
		if !a.Complete { // an event that was cut is not passed on; the gateway's own error event is
			if _, cut := want[len(want)-1].(string); cut {
				want = want[:len(want)-1]
			}
			seen = seen[:min(len(seen), len(want))]
		}
		if !reflect.DeepEqual(seen, want) {
			t.Errorf("%s: the client saw\n%.2000v\nwant\n%.2000v", a.File, seen, want)
		}
	}
	w.Eventually("counted", eventually, func() bool { return w.Metrics().Sum("llmgw_requests_total") >= float64(len(all)) })
	m := w.Metrics()
	for _, a := range all {
		checkCharged(t, a, m)
	}
	t.Logf("%d streams", len(all))
}
