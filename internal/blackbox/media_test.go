package blackbox

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// reply is a part that answers with a document.
func reply(kind, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, body)
	}
}

// reserved is what was reserved for output where no other rule is known.
const reserved = 700

func TestModerationsImagesAndSoundAreChargedByWhatIsTold(t *testing.T) {
	const kind = "application/json"
	picture := strings.Repeat("iVBORw0KGgo", 2<<20/11)
	event := func(name, more string) string {
		return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"b64_json\":%q%s}\n\n", name, name, picture, more)
	}
	pictures := event("image_generation.partial_image", `,"partial_image_index":0`) + event("image_generation.partial_image", `,"partial_image_index":1`) +
		event("image_generation.completed", `,"usage":{"input_tokens":50,"output_tokens":4160,"total_tokens":4210,"input_tokens_details":{"text_tokens":10,"image_tokens":40}}`)
	transcript := "data: {\"type\":\"transcript.text.delta\",\"delta\":\"the budget\"}\n\ndata: {\"type\":\"transcript.text.done\",\"text\":\"the budget\",\"usage\":{\"type\":\"tokens\",\"input_tokens\":14,\"output_tokens\":2,\"total_tokens\":16}}\n\n"
	speech := "data: {\"type\":\"speech.audio.delta\",\"audio\":\"AAAA\"}\n\ndata: {\"type\":\"speech.audio.done\",\"usage\":{\"input_tokens\":4,\"output_tokens\":99,\"total_tokens\":103}}\n\n"
	rows := []struct {
		name, path, body    string
		kind, answer        string
		input, output       int // input of -1: by estimate, some
		estimated, multiple bool
	}{
		{"moderation", "/v1/moderations", `{"model":"moderation","input":"hi"}`, kind, `{"id":"modr-1","model":"omni","results":[{"flagged":false}]}`, -1, 0, true, false},
		{"image", "/v1/images/generations", `{"model":"image","prompt":"hi"}`, kind, `{"created":1,"data":[{"b64_json":"AAAA"}],"usage":{"input_tokens":50,"output_tokens":4160,"total_tokens":4210}}`, 50, 4160, false, false},
		{"image-priced", "/v1/images/generations", `{"model":"image-priced","prompt":"hi","n":2}`, kind, `{"created":1,"data":[{"url":"https://x.example/1"},{"url":"https://x.example/2"}]}`, -1, 2 * reserved, true, false},
		{"gpt-image-1", "/v1/images/generations", `{"model":"gpt-image-1","prompt":"hi","n":2,"size":"1024x1024","quality":"low"}`, kind, `{"created":1,"data":[{"b64_json":"AAAA"},{"b64_json":"AAAA"}]}`, -1, 2 * 272, true, false},
		{"image-stream", "/v1/images/generations", `{"model":"image-stream","prompt":"hi","stream":true,"partial_images":2}`, "text/event-stream", pictures, 50, 4160, false, false},
		{"edit", "/v1/images/edits", "", kind, `{"created":1,"data":[{"b64_json":"AAAA"}],"usage":{"input_tokens":300,"output_tokens":1056,"total_tokens":1356}}`, 300, 1056, false, true},
		{"speech", "/v1/audio/speech", `{"model":"speech","input":"hi","voice":"alloy"}`, "audio/mpeg", "ID3\x04\x00 not text at all {\"usage\":{\"input_tokens\":1}}", -1, reserved, true, false},
		{"gpt-4o-mini-tts", "/v1/audio/speech", `{"model":"gpt-4o-mini-tts","input":"hi there, how are you?","voice":"alloy"}`, "audio/mpeg", "ID3\x04\x00", -1, 20 + 2*22, true, false},
		{"speech-stream", "/v1/audio/speech", `{"model":"speech-stream","input":"hi","voice":"alloy","stream_format":"sse"}`, "text/event-stream", speech, 4, 99, false, false},
		{"transcript", "/v1/audio/transcriptions", "", kind, `{"text":"the budget","usage":{"type":"tokens","input_tokens":14,"input_token_details":{"text_tokens":0,"audio_tokens":14},"output_tokens":2,"total_tokens":16}}`, 14, 2, false, true},
		{"transcript-seconds", "/v1/audio/transcriptions", "", kind, `{"text":"the budget","usage":{"type":"duration","seconds":62}}`, 620, 2, true, true},
		{"transcript-stream", "/v1/audio/transcriptions", "stream", "text/event-stream", transcript, 14, 2, false, true},
		{"translation", "/v1/audio/translations", "", kind, `{"text":"the budget"}`, -1, 2, true, true},
	}
	p := play{}
	for _, s := range rows {
		p[s.name] = reply(s.kind, s.answer)
	}
	// A form names its model without quotes.
	var forms atomic.Int64
	byForm := func(w http.ResponseWriter, r *http.Request, body string) bool {
		_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || params["boundary"] == "" {
			return false
		}
		form, err := multipart.NewReader(strings.NewReader(body), params["boundary"]).ReadForm(1 << 20)
		if err != nil || len(form.File["file"]) != 1 {
			return false
		}
		forms.Add(1)
		p[form.Value["model"][0]](w, r)
		return true
	}
	w := onForms(t, p, byForm, setup{model: "default_max_output: 4096"}, reserved)
	for _, s := range rows {
		body, header := s.body, "application/json"
		if s.multiple {
			body, header = form(s.name, s.body == "stream"), "multipart/form-data; boundary=zzz"
		}
		a, err := w.Try(secret, s.path, body, "Content-Type", header)
		if err != nil || a.Status != 200 || a.Body != s.answer || a.Header.Get("Content-Type") != s.kind {
			t.Errorf("%s: got %d %s, %v, and %d bytes, want %d as they were sent\n%.300s", s.name, a.Status, a.Header.Get("Content-Type"), err, len(a.Body), len(s.answer), a.Body)
		}
		if s.input >= 0 {
			w.ended(s.name, "completed", s.input, s.output, s.estimated)
			continue
		}
		var estimated int
		if _, err := fmt.Sscan(a.Header.Get("X-LLMGW-Estimated-Tokens"), &estimated); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		most := s.output
		if s.name == "translation" {
			most = reserved
		}
		w.ended(s.name, "completed", estimated-most, s.output, s.estimated)
	}
	if got := forms.Load(); got != 5 {
		t.Errorf("the provider read %d forms, want 5", got)
	}
	w.settled()
}

// onForms is onStage for a play that is also given by forms.
func onForms(t *testing.T, p play, byForm func(http.ResponseWriter, *http.Request, string) bool, set setup, most int) *world {
	t.Helper()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if byForm(w, r, string(body)) {
			return
		}
		var asked struct{ Model string }
		if json.Unmarshal(body, &asked) != nil || p[asked.Model] == nil {
			http.NotFound(w, r)
			return
		}
		p[asked.Model](w, r)
	})
	set.limits += "\n" + tokensLimit()
	set.providers += "{name: media, dialect: openai, base_url: " + server + "/v1, api_keys: [sk-p], retries: {attempts: 0}}\n"
	for name := range p {
		set.models += fmt.Sprintf("{name: %s, targets: [{provider: media}], default_max_output: %d}\n", name, most)
	}
	return start(t, set)
}

func TestBackgroundAndStoredResponsesThroughTheGateway(t *testing.T) {
	w := start(t, setup{limits: tokensLimit() + "\n" + monthly("requests", "requests", 100)})
	a := w.Post(secret, "/v1/responses", `{"model":"sim-in10-out5","input":"hi","background":true,"max_output_tokens":90}`)
	var made struct{ ID, Status string }
	if err := json.Unmarshal([]byte(a.Body), &made); err != nil || a.Status != 200 || made.ID == "" {
		t.Fatalf("got %d, %v\n%s", a.Status, err, a.Body)
	}
	if made.Status == "completed" {
		t.Fatalf("a response in the background came at once: %s", a.Body)
	}
	var most int
	if _, err := fmt.Sscan(a.Header.Get("X-LLMGW-Estimated-Tokens"), &most); err != nil {
		t.Fatal(err)
	}
	if l := w.Limit("search", "tokens"); l.Amount-l.Remaining != float64(most) {
		t.Errorf("%v are taken while nobody knows what it comes to, want the %d that were reserved", l.Amount-l.Remaining, most)
	}
	for _, s := range []struct{ method, path string }{{"GET", ""}, {"POST", "/cancel"}, {"GET", "?stream=true&starting_after=1"}, {"DELETE", ""}} {
		a := w.send(s.method, "/v1/responses/"+made.ID+s.path, secret, "")
		if a.Status != 200 {
			t.Errorf("%s %s: got %d\n%s", s.method, s.path, a.Status, a.Body)
		}
	}
	if tokens, requests := w.spent("tokens"), w.spent("requests"); tokens >= most || tokens < 2 || requests != 5 {
		t.Errorf("reading it and ending it: charged %d tokens and %d requests in all, want less than the %d that were reserved, and 5", tokens, requests, most)
	}
	w.settled()
}
