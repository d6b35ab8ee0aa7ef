package blackbox

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// flavor is a provider that follows OpenAI's API: below which path its official
// client's base URL is, and how it ends a stream that used 11 + 3 tokens.
type flavor struct {
	name, base string
	asked      bool // it is asked for usage
	end        string
}

// finish is a chunk with a finish reason, and what stands beside its choices.
func finish(more string) string {
	return `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]` + more + "}\n\n"
}

const (
	elevenAndThree = `"usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14`
	comment        = ": keep-alive\n\n"
)

var flavors = []flavor{
	{"openai", "/v1", true, finish("") + usageChunk + doneChunk},
	{"mistral", "/v1", false, finish(`,`+elevenAndThree+`,"num_cached_tokens":4}`) + doneChunk},
	{"deepseek", "", false, comment + finish(`,`+elevenAndThree+`,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":7}`) + doneChunk},
	{"groq", "/openai/v1", false, finish(`,"x_groq":{"id":"r",`+elevenAndThree+`}},`+elevenAndThree+`}`) + doneChunk},
	{"openrouter", "/api/v1", false, comment + finish("") + `data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}],` + elevenAndThree + `,"cost":0.02}}` + "\n\n" + doneChunk},
	{"together", "/v1", true, `data: {"choices":[{"index":0,"text":"","delta":{"content":""},"finish_reason":"stop"}],` + elevenAndThree + `,"cached_tokens":4}}` + "\n\n" + doneChunk},
	{"fireworks", "/inference/v1", false, finish(`,`+elevenAndThree+`},"perf_metrics":{"a":1}`) + doneChunk},
	{"xai", "/v1", true, finish("") + `data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":1,"total_tokens":14,"completion_tokens_details":{"reasoning_tokens":2}}}` + "\n\n" + doneChunk},
	{"perplexity", "", false, `data: {"choices":[{"index":0,"delta":{"content":""}}],"usage":{"prompt_tokens":11,"completion_tokens":1,"total_tokens":12}}` + "\n\n" +
		`data: {"object":"chat.completion.done","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` + elevenAndThree + `,"cost":{"total_cost":0.1}}}` + "\n\n"},
	{"vllm", "/v1", true, `data: {"choices":[{"index":0,"delta":{"content":""}}],"usage":{"prompt_tokens":11,"completion_tokens":2,"total_tokens":13}}` + "\n\n" + finish("") + usageChunk + doneChunk},
	{"llamacpp", "/v1", true, finish(`,"timings":{"cache_n":4,"prompt_n":7,"predicted_n":3}`) + doneChunk},
	{"lmstudio", "/v1", true, finish(`,"stats":{"stop_reason":"eosFound"}`) + usageChunk + doneChunk},
}

// TestEachFlavorIsAskedAndReadInItsOwnWay has each flavor answer below the path
// of its own base URL. What it reports is charged. A client that asked for no
// usage sees none where the gateway asked, and else whatever the provider sent.
func TestEachFlavorIsAskedAndReadInItsOwnWay(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		for _, f := range flavors {
			if err == nil && r.URL.Path == "/"+f.name+f.base+"/chat/completions" && strings.Contains(string(body), "include_usage") == f.asked {
				say(w, twoTokens, f.end)
				return
			}
		}
		http.Error(w, `{"error":{"message":"unexpected"}}`, http.StatusTeapot)
	})
	set := setup{limits: tokensLimit()}
	for _, f := range flavors {
		set.providers += fmt.Sprintf("{name: %s, dialect: openai, flavor: %s, base_url: %s/%s%s, api_keys: [sk-p], retries: {attempts: 0}}\n", f.name, f.name, server, f.name, f.base)
		set.models += fmt.Sprintf("{name: on-%s, targets: [{provider: %s}]}\n", f.name, f.name)
	}
	w := start(t, set)
	for _, f := range flavors {
		a, err := w.Try(secret, chat, ask("on-"+f.name, streamed))
		if err != nil || a.Status != 200 {
			t.Errorf("%s: got %d, %v\n%s", f.name, a.Status, err, a.Body)
			continue
		}
		asIs := strings.Contains(a.Body, f.end)
		if hidden := f.asked && strings.Contains(f.end, `"usage"`); hidden == asIs || hidden && strings.Contains(a.Body, "prompt_tokens") || !strings.Contains(a.Body, `"finish_reason":"stop"`) || !strings.Contains(a.Body, " budget") {
			t.Errorf("%s: the client saw\n%s", f.name, a.Body)
		}
		w.ended("on-"+f.name, "completed", 11, 3, false)
	}
	if got, want := w.spent("tokens"), 14*len(flavors); got != want {
		t.Errorf("charged %d, want %d", got, want)
	}
	w.settled()
}
