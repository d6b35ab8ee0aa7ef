package blackbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"llmgw/internal/gatewaytest"
)

// words is a chat request whose prompt is long enough to teach something.
func words(model string, more ...string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]%s}`,
		model, strings.Repeat("hello ", 100)+"hello", strings.Join(append([]string{""}, more...), ","))
}

// estimatedTokens sends a request and returns what was estimated of it.
func (w *world) estimatedTokens(body string) int {
	w.t.Helper()
	a := w.Post(secret, chat, body)
	var n int
	if _, err := fmt.Sscan(a.Header.Get("X-LLMGW-Estimated-Tokens"), &n); a.Status != 200 || err != nil {
		w.t.Fatalf("got %d, %v\n%s", a.Status, err, a.Body)
	}
	return n
}

func TestACapIsNeverWhatWasLearned(t *testing.T) {
	w := start(t, setup{
		limits: tokensLimit(),
		models: "{name: capped, targets: [{provider: sim, model: sim-in8-out100}], default_max_output: 700, reserve_output: learned, cap_output: true}",
	})
	var last int
	for range 60 {
		last = w.estimatedTokens(ask("capped"))
	}
	if last >= 130 || last < 108 {
		t.Errorf("got %d tokens reserved for requests that use 108", last)
	}
	seen := w.provider.Saw("sim-in8-out100")
	if sent := seen[len(seen)-1].Body; !strings.Contains(sent, `"max_completion_tokens":700`) {
		t.Errorf("the provider got %s\nwant the model's own maximum: what was learned would cut one answer of a hundred off", sent)
	}
	w.settled()
}

func TestEachTargetLearnsForItself(t *testing.T) {
	w := start(t, setup{
		limits: tokensLimit(),
		models: "{name: both, targets: [{provider: sim, model: sim-in110-out1-tag1}, {provider: sim, model: sim-in132-out1-tag2}]}\n" +
			"{name: reserve, targets: [{provider: sim, model: sim-in110-out1-tag3}, {provider: sim, model: sim-in1000-out1-tag4, weight: 0}]}",
	})
	var last int
	for range 80 {
		last = w.estimatedTokens(words("both", `"max_tokens":1`))
	}
	if last < 133 || last > 137 {
		t.Errorf("got %d tokens reserved where the targets count 110 and 132, want what the larger needs", last)
	}
	m := w.Metrics()
	if sum, n := m.Sum("llmgw_estimate_ratio_sum", "model", "both"), m.Sum("llmgw_estimate_ratio_count", "model", "both"); n != 80 || sum/n < 0.95 || sum/n > 1.1 {
		t.Errorf("used ÷ estimated was %v on the average of %v answers, want about 1: each by its target", sum/n, n)
	}
	for range 20 {
		last = w.estimatedTokens(words("reserve", `"max_tokens":1`))
	}
	if last > 115 {
		t.Errorf("got %d tokens reserved, want about 110: the other target has not been asked", last)
	}
	w.settled()
}

func TestWhatOneInstanceHasLearnedTheOthersAndTheNextOneKnow(t *testing.T) {
	w := start(t, setup{
		gateways: 2, redis: true, limits: tokensLimit(),
		models: "{name: known, targets: [{provider: sim, model: sim-in132-out100}], reserve_output: learned}",
	})
	body := words("known", `"max_tokens":4096`)
	reserves := func(g *gatewaytest.Gateway) int {
		var n struct {
			Estimate struct {
				Total int `json:"total_tokens"`
			}
		}
		a := g.Admin("POST", "/admin/v1/explain", fmt.Sprintf(`{"key_id":"search-key","path":%q,"body":%s}`, chat, body))
		if err := json.Unmarshal([]byte(a.Body), &n); err != nil {
			t.Fatalf("%v\n%s", err, a.Body)
		}
		return n.Estimate.Total
	}
	knows := func(g *gatewaytest.Gateway) bool {
		n := reserves(g)
		return n >= 232 && n <= 250
	}
	if knows(w.all[0]) || knows(w.all[1]) {
		t.Fatal("something is known before any answer")
	}
	for range 40 {
		w.estimatedTokens(body)
	}
	if !knows(w.all[0]) {
		t.Fatalf("after 40 answers of 232 tokens %d are reserved", reserves(w.Gateway))
	}
	if code := w.Stop(); code != 0 {
		t.Fatalf("got exit code %d\n%s", code, w.Log())
	}
	w.Restart()
	if !knows(w.all[0]) {
		t.Errorf("after a restart %d tokens are reserved, want what was known before it", reserves(w.Gateway))
	}
	w.Eventually("the other instance knows too", 30*time.Second, func() bool { return knows(w.all[1]) })
	w.settled()
}

func TestAnAnswerWithoutUsageIsChargedByItsOwnTarget(t *testing.T) {
	w := start(t, setup{
		limits: monthly("tokens", "tokens", 100_000),
		models: "{name: digits, targets: [{provider: sim, model: sim-out1-nousage}, {provider: own, model: qwen3-32b, weight: 0}]}",
		// the second target counts each digit
		providers: "{name: own, dialect: openai, flavor: vllm, base_url: \"http://127.0.0.1:1/v1\", api_keys: [x]}",
	})
	digits := strings.Repeat("1", 300)
	body := fmt.Sprintf(`{"model":"digits","max_tokens":1,"messages":[{"role":"user","content":%q}]}`, digits)
	if got := w.estimatedTokens(body); got < 300 || got > 320 {
		t.Errorf("got %d tokens reserved, want what the target that counts each digit needs", got)
	}
	w.settled()
	if l := w.Limit("search", "tokens"); l.Amount-l.Remaining != 100+promptTokens-1+1 {
		t.Errorf("got %v charged, want what the target that answered counts: 100 for the digits", l.Amount-l.Remaining)
	}
}

func TestTheCommandAndExplainShowTheSameParts(t *testing.T) {
	w := start(t, setup{models: "{name: gpt-4o, targets: [{provider: sim}], default_max_output: 70}"})
	body := `{"model":"gpt-4o","n":2,"messages":[{"role":"user","content":[{"type":"text","text":"hello"},{"type":"image_url","image_url":{"url":"https://a/b.png","detail":"low"}}]}],` +
		`"tools":[{"type":"function","function":{"name":"hello"}}]}`
	type estimate struct {
		Input  int                `json:"input_tokens"`
		Output int                `json:"output_tokens"`
		Total  int                `json:"total_tokens"`
		Parts  map[string]float64 `json:"parts"`
	}
	var explained struct{ Estimate estimate }
	a := w.Admin("POST", "/admin/v1/explain", fmt.Sprintf(`{"key_id":"search-key","path":%q,"body":%s}`, chat, body))
	if err := json.Unmarshal([]byte(a.Body), &explained); err != nil {
		t.Fatalf("%v\n%s", err, a.Body)
	}
	var told estimate
	_, out, _ := command(t, body, "estimate", "--json")
	if err := json.Unmarshal([]byte(out), &told); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// The embedded defaults of the command reserve 4,096; the model here 70.
	for what, e := range map[string]struct {
		got    estimate
		output float64
	}{"explain": {explained.Estimate, 70}, "llmgw estimate": {told, 4096}} {
		p := e.got.Parts
		input := p["text"] + p["messages"] + p["tools"] + p["images"] + p["media"]
		if len(p) != 7 || p["text"] != 1 || p["messages"] != 7 || p["tools"] != 23 || p["images"] != 85 || p["factor"] != 1 || p["output"] != e.output {
			t.Errorf("%s: the parts are %v", what, p)
		}
		if e.got.Input != int(input) || e.got.Output != 2*int(e.output) || e.got.Total != e.got.Input+e.got.Output {
			t.Errorf("%s: %+v does not add up", what, e.got)
		}
	}
}
