package proxy

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/tokens"
)

// dollars is a house whose model has prices, and whose team has a limit of money
// in the place of that of tokens.
func dollars(dialect string, prices func(*tokens.Prices)) setting {
	p := new(tokens.Prices)
	prices(p)
	p.Fill()
	return setting{
		dialect: dialect,
		model:   func(m *charge.Model) { m.Prices = p },
		rules:   func(r *Rules) { r.Directory.Team("t").Limits[0] = houseLimit(budget.USD) },
	}
}

func claudePrices(p *tokens.Prices) {
	for c, r := range map[tokens.Class]tokens.Rate{
		tokens.Input: 3_000_000, tokens.CachedInput: 300_000, tokens.CacheWrite: 3_750_000, tokens.CacheWrite1h: 6_000_000, tokens.Output: 15_000_000,
	} {
		p.Set(c, r)
	}
	p.SetPiece(tokens.WebSearch, 10_000)
	p.SetTier(tokens.Fast, 6*tokens.One)
}

func TestDollarsAreReservedAtTheDearestAndChargedByWhatTheAnswerReports(t *testing.T) {
	const prompt = `"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"}]`
	message := func(usage string) http.HandlerFunc {
		return says("application/json", `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"one"}],"stop_reason":"end_turn","usage":`+usage+`}`)
	}
	for _, s := range []struct {
		what, body string
		provider   http.HandlerFunc
		reserved   func(in int64) int64 // by the estimate of the input
		charged    int64
	}{
		{
			"plain", `{` + prompt + `}`, message(`{"input_tokens":10,"output_tokens":5}`),
			func(in int64) int64 { return 3*in + 1500 }, 30 + 75,
		},
		{
			"a cache of an hour", `{"cache_control":{"type":"ephemeral","ttl":"1h"},` + prompt + `}`,
			message(`{"input_tokens":10,"cache_creation_input_tokens":1000,"cache_creation":{"ephemeral_1h_input_tokens":1000},"output_tokens":5}`),
			func(in int64) int64 { return 6*in + 1500 }, 30 + 6000 + 75,
		},
		{
			"a cache of minutes", `{"cache_control":{"type":"ephemeral"},` + prompt + `}`,
			message(`{"input_tokens":10,"cache_creation_input_tokens":1000,"output_tokens":5}`),
			func(in int64) int64 { return (375*in + 150_000 + 99) / 100 }, 30 + 3750 + 75,
		},
		{
			"searches", `{"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":3}],` + prompt + `}`,
			message(`{"input_tokens":10,"output_tokens":5,"server_tool_use":{"web_search_requests":2}}`),
			func(in int64) int64 { return 3*in + 1500 + 30_000 }, 30 + 75 + 20_000,
		},
		{
			"fast", `{"speed":"fast",` + prompt + `}`, message(`{"input_tokens":10,"output_tokens":5,"speed":"fast"}`),
			func(in int64) int64 { return 6 * (3*in + 1500) }, 6 * (30 + 75),
		},
		{
			"fast that was not to be had", `{"speed":"fast",` + prompt + `}`, message(`{"input_tokens":10,"output_tokens":5,"service_tier":"standard","speed":"standard"}`),
			func(in int64) int64 { return 6 * (3*in + 1500) }, 30 + 75,
		},
		{
			"fast, which the answer leaves out", `{"speed":"fast",` + prompt + `}`, message(`{"input_tokens":10,"output_tokens":5}`),
			func(in int64) int64 { return 6 * (3*in + 1500) }, 6 * (30 + 75),
		},
	} {
		inHouse(t, dollars("anthropic", claudePrices), s.provider, func(h *house) {
			if got := h.ask("/v1/messages", s.body); got.status != http.StatusOK {
				t.Fatalf("%s: %d %s", s.what, got.status, got.body)
			}
			e := h.entry()
			if want := s.reserved(int64(e.Reserved) - 100); h.limiter.lines[e.RequestID][0].Amount != want {
				t.Errorf("%s: reserved %d, want %d", s.what, h.limiter.lines[e.RequestID][0].Amount, want)
			}
			if used := h.limiter.used(e.RequestID); used[0] != s.charged || e.MicroUSD != s.charged {
				t.Errorf("%s: the limit is charged %d, the books %d, want %d", s.what, used[0], e.MicroUSD, s.charged)
			}
		})
	}
}

func TestTokensWithoutAClassAreOfThatOfTheirOperation(t *testing.T) {
	priced := func(p *tokens.Prices) {
		for c, r := range map[tokens.Class]tokens.Rate{tokens.Input: 1, tokens.Output: 2, tokens.AudioInput: 6, tokens.AudioOutput: 12, tokens.ImageOutput: 40} {
			p.Set(c, r*tokens.One)
		}
	}
	for _, s := range []struct {
		what, path, body, answer string
		charged                  int64
	}{
		{"a picture", "/v1/images/generations", `{"model":"m","prompt":"x"}`, `{"data":[{"b64_json":"x"}],"usage":{"input_tokens":10,"output_tokens":100}}`, 10 + 4000},
		{"a picture with text beside it", "/v1/images/generations", `{"model":"m","prompt":"x"}`, `{"data":[{"b64_json":"x"}],"usage":{"input_tokens":10,"output_tokens":100,"output_tokens_details":{"image_tokens":90}}}`, 10 + 3600 + 20},
		{"a minute of sound", "/v1/audio/transcriptions", "", `{"text":"","usage":{"type":"duration","seconds":60}}`, 3600},
	} {
		header := []string{"Content-Type", "application/json"}
		if s.body == "" {
			header[1] = "multipart/form-data; boundary=x"
			s.body = "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nsound\r\n--x--\r\n"
		}
		inHouse(t, dollars("openai", priced), says("application/json", s.answer), func(h *house) {
			if got := h.ask(s.path, s.body, header...); got.status != http.StatusOK {
				t.Fatalf("%s: %d %s", s.what, got.status, got.body)
			}
			if e := h.entry(); e.MicroUSD != s.charged || h.limiter.used(e.RequestID)[0] != s.charged {
				t.Errorf("%s: the books have %d, the limit %v, want %d: %+v", s.what, e.MicroUSD, h.limiter.used(e.RequestID), s.charged, e.Usage)
			}
		})
	}
}

func TestWhatHasNoPriceIsLoggedOnceAndCounted(t *testing.T) {
	plain := func(p *tokens.Prices) { p.Set(tokens.Input, tokens.One); p.Set(tokens.Output, tokens.One) }
	answer := says("application/json", `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"one"}],"stop_reason":"end_turn",`+
		`"usage":{"input_tokens":10,"output_tokens":5,"server_tool_use":{"web_search_requests":2}}}`)
	inHouse(t, dollars("anthropic", plain), answer, func(h *house) {
		for range 3 {
			h.ask("/v1/messages", `{"model":"m","max_tokens":9,"messages":[]}`)
		}
		h.idle()
		if n := strings.Count(h.log.String(), `"class":"web_search"`); n != 1 {
			t.Errorf("it is logged %d times, want once:\n%s", n, h.log.String())
		}
		if text := metricsOf(h); !strings.Contains(text, `llmgw_unpriced_total{class="web_search",model="m"} 3`) {
			t.Errorf("it is not counted:\n%s", text)
		}
	})
}

// TestInputThatTheProviderAddsIsHeldBack is a team that refers to a conversation
// of 200,000 tokens with 300 calls at once, at a limit of 100,000 a minute. What
// is used is in the books whole, however deep the limit's debt may be.
func TestInputThatTheProviderAddsIsHeldBack(t *testing.T) {
	const hidden, perMinute, minutes = 200_000, 100_000, 60
	var calls atomic.Int64
	provider := func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		time.Sleep(time.Second)
		says("application/json", fmt.Sprintf(`{"id":"resp_2","object":"response","status":"completed","model":"m","output":[{"type":"message","content":[{"type":"output_text","text":"one"}]}],`+
			`"usage":{"input_tokens":%d,"output_tokens":16,"total_tokens":%d}}`, hidden, hidden+16))(w, r)
	}
	s := setting{rules: func(r *Rules) {
		l := houseLimit(budget.Tokens)
		l.Amount, l.Burst, l.UnboundedDebt, l.MaxDebt = perMinute, perMinute, false, 10*perMinute
		r.Directory.Team("t").Limits[0] = l
	}}
	inHouse(t, s, provider, func(h *house) {
		burst := func() int64 {
			before := calls.Load()
			var all []*coming
			for range 300 {
				all = append(all, h.open("/v1/responses", `{"model":"m","input":"go on","previous_response_id":"resp_1","max_output_tokens":16}`))
			}
			for _, c := range all {
				c.rest()
			}
			return calls.Load() - before
		}
		if n := burst(); n > 4 {
			t.Errorf("%d calls of a team that nothing is known of ran at once, want 4 at most", n)
		}
		h.idle()
		start := calls.Load()
		for range minutes {
			time.Sleep(time.Minute)
			if n := burst(); n > 1 {
				t.Errorf("%d calls of 200,000 tokens ran at once at a limit of 100,000", n)
			}
		}
		if used := (calls.Load() - start) * hidden; used > minutes*perMinute+hidden {
			t.Errorf("%d tokens were used in %d minutes of %d", used, minutes, perMinute)
		}
		if calls.Load() == start {
			t.Error("no call ran any more: what was learned refuses for ever")
		}
		h.idle()
		var booked int64
		for _, e := range h.entries.all {
			booked += int64(e.Usage.Total())
		}
		if want := calls.Load() * (hidden + 16); booked != want {
			t.Errorf("the books have %d tokens, want all %d that were used", booked, want)
		}
	})
}

func TestWhatExceedsADebtIsInTheBooks(t *testing.T) {
	s := dollars("openai", func(p *tokens.Prices) { p.Set(tokens.Input, tokens.One); p.Set(tokens.Output, tokens.One) })
	limits := s.rules
	s.rules = func(r *Rules) {
		limits(r)
		for _, l := range r.Directory.Team("t").Limits {
			l.Amount, l.Burst, l.UnboundedDebt, l.MaxDebt = 10_000, 10_000, false, 10
		}
	}
	answer := strings.NewReplacer(`"prompt_tokens":7`, `"prompt_tokens":5000000`, `"total_tokens":10`, `"total_tokens":5000003`).Replace(wholeChat)
	inHouse(t, s, says("application/json", answer), func(h *house) {
		h.ask(chatPath, chatPrompt)
		e := h.entry()
		if e.Usage.Input != 5_000_000 || e.MicroUSD != 5_000_003 || !slices.Equal(h.limiter.used(e.RequestID), []int64{5_000_003, 1}) {
			t.Errorf("the books have %+v and %d, the limits %v", e.Usage, e.MicroUSD, h.limiter.used(e.RequestID))
		}
		if text := metricsOf(h); !strings.Contains(text, `llmgw_tokens_total{kind="input",model="m",team="t"} 5e+06`) {
			t.Errorf("the metrics leave some out:\n%s", text)
		}
	})
}

// metricsOf is what Prometheus would read.
func metricsOf(h *house) string {
	w := &strings.Builder{}
	r, _ := http.NewRequest(http.MethodGet, "/metrics", nil)
	h.Metrics.Handler().ServeHTTP(textWriter{w}, r)
	var lines []string
	for line := range strings.SplitSeq(w.String(), "\n") {
		if strings.HasPrefix(line, "llmgw_") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// textWriter is a ResponseWriter that keeps the body.
type textWriter struct{ *strings.Builder }

func (textWriter) Header() http.Header { return http.Header{} }
func (textWriter) WriteHeader(int)     {}

// An answer says what it cost: in its header where that is known by then, else in
// its trailer.
func TestAnAnswerSaysWhatItCost(t *testing.T) {
	provider := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // the test's own
		if strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}}\n\ndata: [DONE]\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":5}}`)
	}
	for _, priced := range []bool{true, false} {
		s := dollars("openai", func(p *tokens.Prices) { p.Set(tokens.Input, 2_000_000); p.Set(tokens.Output, 10_000_000) })
		if !priced {
			s = setting{}
		}
		inHouse(t, s, provider, func(h *house) {
			for _, stream := range []string{"", `"stream":true,`} {
				c := h.open(chatPath, `{"model":"m",`+stream+`"messages":[{"role":"user","content":"hi"}]}`)
				got := c.rest()
				cost := got.header.Get("X-Llmgw-Cost-Usd")
				if stream != "" {
					cost = c.resp.Trailer.Get("X-Llmgw-Cost-Usd")
				}
				e := h.entry()
				if priced && (e.MicroUSD != 64 || cost != "0.000064") || !priced && cost != "" {
					t.Errorf("priced %v, %s: told %q, and %d micro-dollars are in the log", priced, stream, cost, e.MicroUSD)
				}
			}
		})
	}
}
