package blackbox

import (
	"strings"
	"testing"
)

func TestEachUnitIsChargedWhatItCounts(t *testing.T) {
	w := start(t, setup{
		limits: monthly("weighted", "tokens", 1_000_000) + "\n" + monthly("in", "input_tokens", 1_000_000) + "\n" +
			monthly("out", "output_tokens", 1_000_000) + "\n" + monthly("calls", "requests", 1_000_000) + "\n" + monthly("money", "usd", 10),
		models: "{name: weighed, targets: [{provider: sim, model: sim-in100-out10-cached40}], weights: {input: 1, cached_input: 0.1, output: 4}, prices: {input: 1, cached_input: 0.5, output: 4}}",
	})
	if a := w.Post(secret, chat, ask("weighed", bound(50))); a.Status != 200 || a.Header.Get("X-LLMGW-Estimated-Tokens") != "50" {
		t.Fatalf("got %d and %q estimated, want 200 and 50, without weights", a.Status, a.Header.Get("X-LLMGW-Estimated-Tokens"))
	}
	for name, want := range map[string]float64{
		"weighted": 60 + 40*0.1 + 10*4, "in": 100, "out": 10, "calls": 1, "money": (60*1 + 40*0.5 + 10*4) / 1e6,
	} {
		l := w.Limit("search", name)
		if got := l.Amount - l.Remaining; got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%s: got %v charged, want %v", name, got, want)
		}
	}
	w.settled()
}

func TestBoundsOfOutputAreReservedAndWritten(t *testing.T) {
	w := start(t, setup{
		limits: tokensLimit(),
		models: "{name: capped, targets: [{provider: sim, model: sim-out2000}], default_max_output: 33, max_output: 50, cap_output: true}\n" +
			"{name: loose, targets: [{provider: sim, model: sim-out10}], default_max_output: 33, max_output: 50}",
	})
	for _, s := range []struct {
		what, body string
		estimated  string
		sent       string // contained in what the provider gets
		not        string
	}{
		{"the default is written where it shall be", ask("capped"), "41", `"max_completion_tokens":33`, ""},
		{"but not over the client's own", ask("capped", `"max_tokens":7`), "15", `"max_tokens":7`, "max_completion_tokens"},
		{"nothing is written by default", ask("loose"), "41", "messages", "max"},
		{"a larger wish is reserved as the model's maximum", ask("loose", `"max_tokens":100000`), "58", `"max_tokens":100000`, "max_completion_tokens"},
		{"for each answer", ask("loose", `"max_tokens":40,"n":3`), "128", `"n":3`, ""},
		{"1e1 is ten", ask("loose", `"max_tokens":1e1`), "18", `"max_tokens":1e1`, ""},
	} {
		a := w.Post(secret, chat, s.body)
		if got := a.Header.Get("X-LLMGW-Estimated-Tokens"); a.Status != 200 || got != s.estimated {
			t.Errorf("%s: got %d and %s estimated, want 200 and %s\n%s", s.what, a.Status, got, s.estimated, a.Body)
		}
		last := w.provider.Stats().Last
		sent := last[len(last)-1].Body
		if !strings.Contains(sent, s.sent) || s.not != "" && strings.Contains(sent, s.not) {
			t.Errorf("%s: the provider got %s", s.what, sent)
		}
	}
	w.settled()
}

func TestWhatOnlyWatchesRefusesNothing(t *testing.T) {
	w := start(t, setup{limits: "{name: watched, unit: requests, amount: 1, per: month, mode: shadow}\n" +
		"{name: lower, unit: tokens, amount: 1M, per: month, candidate: {amount: 100}}"})
	for range 3 { // of 100 tokens 20 are used by each, and 61 asked for: the third would not fit
		if a := w.Post(secret, chat, ask("sim-in10-out10", bound(61))); a.Status != 200 || strings.Contains(a.Header.Get("RateLimit"), "watched") {
			t.Errorf("got %d and RateLimit %q, want 200 and no limit in shadow", a.Status, a.Header.Get("RateLimit"))
		}
	}
	for mode, want := range map[string]float64{"shadow": 2, "candidate": 1, "enforce": 0} {
		if got := w.Metrics().Sum("llmgw_rejections_total", "team", "search", "mode", mode); got != want {
			t.Errorf("%s: got %v, want %v", mode, got, want)
		}
	}
	w.settled()
}

func TestALimitOnEachModelCountsEach(t *testing.T) {
	w := start(t, setup{
		limits: "{name: each, scope: model, unit: requests, amount: 1, per: month}",
		models: "{name: one, targets: [{provider: sim, model: sim-out1}]}\n{name: two, targets: [{provider: sim, model: sim-out1}]}",
	})
	for _, s := range []struct {
		model  string
		status int
		by     string
	}{
		{"one", 200, ""}, {"one", 429, "model/one/each"}, {"two", 200, ""},
		{"sim-out1", 200, ""}, {"sim-out2", 429, "model/*/each"}, // what only "*" names shares one
	} {
		if a := w.Post(secret, chat, ask(s.model)); a.Status != s.status || a.LimitedBy() != s.by {
			t.Errorf("%s: got %d by %q, want %d by %q", s.model, a.Status, a.LimitedBy(), s.status, s.by)
		}
	}
}

func TestWhatIsOutOfRangeIsToldByItsField(t *testing.T) {
	w := start(t, setup{})
	for _, s := range []struct{ path, body, param string }{
		{chat, ask("sim", `"max_tokens":0`), "max_tokens"},
		{chat, ask("sim", `"max_completion_tokens":-1`), "max_completion_tokens"},
		{chat, ask("sim", `"max_tokens":1.5`), "max_tokens"},
		{chat, ask("sim", `"max_tokens":"9"`), "max_tokens"},
		{chat, ask("sim", `"max_tokens":9007199254740993`), "max_tokens"},
		{chat, ask("sim", `"n":0`), "n"},
		{chat, ask("sim", `"model":"sim"`), "model"},
		{chat, `{"messages":[]}`, "model"},
	} {
		a := w.Post(secret, s.path, s.body)
		if a.Status != 400 || a.Code() != "invalid_request" || !strings.Contains(a.Body, `"param":"`+s.param+`"`) {
			t.Errorf("%s: got %d %q, want 400 invalid_request of %s\n%s", s.body, a.Status, a.Code(), s.param, a.Body)
		}
	}
	for header, want := range map[string]int{"5s": 200, "0s": 200, "soon": 400, "-1s": 400, "5": 400} {
		if a := w.Post(secret, chat, ask("sim-out1"), "X-LLMGW-Max-Wait", header); a.Status != want {
			t.Errorf("X-LLMGW-Max-Wait: %s: got %d, want %d", header, a.Status, want)
		}
	}
	if got := w.Metrics().Sum("llmgw_requests_total", "outcome", "invalid", "status", "400"); got != 11 {
		t.Errorf("got %v invalid requests, want 11", got)
	}
}
