package proxy

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/fault"
	"llmgw/internal/tenant"
	"llmgw/internal/tokens"
)

const reservationsPath = "/llmgw/v1/reservations"

// opened is a reservation as its client sees it.
type opened struct {
	ID      string    `json:"id"`
	Expires time.Time `json:"expires_at"`
	Limits  []ExplainedLimit
}

// reserveOutside makes one and wants it granted.
func (h *house) reserveOutside(body string) (o opened) {
	h.t.Helper()
	a := h.ask(reservationsPath, body)
	if a.status != http.StatusCreated {
		h.t.Fatalf("reserve: got %d %s, want 201", a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &o); err != nil {
		h.t.Fatal(err)
	}
	return o
}

func (o opened) path(more ...string) string {
	return reservationsPath + "/" + o.ID + strings.Join(more, "")
}

// left is what the team's limit of a unit has left and open.
func (h *house) left(u budget.Unit) (remaining, open int64) {
	h.t.Helper()
	states, _, err := h.limiter.Read(h.t.Context(), []budget.Line{{Limit: h.Rules().Directory.Team("t").Limits[map[budget.Unit]int{budget.Tokens: 0, budget.Requests: 1}[u]]}})
	if err != nil {
		h.t.Fatal(err)
	}
	return states[0].Remaining, states[0].Open
}

func TestAReservationIsSettledOnceAtWhicheverGatewayWithOneAnswer(t *testing.T) {
	inHouse(t, setting{}, nil, func(h *house) {
		o := h.reserveOutside(`{"model":"m","input_tokens":100,"max_output_tokens":50}`)
		if got := time.Until(o.Expires); got != time.Minute {
			t.Errorf("it lives for %v, want a minute", got)
		}
		if _, open := h.left(budget.Tokens); open != 150 {
			t.Errorf("got %d open, want 150", open)
		}
		var first answer
		h.another(func(other *house) {
			first = other.ask(o.path("/settle"), `{"usage":{"prompt_tokens":80,"completion_tokens":20}}`)
		})
		if first.status != http.StatusOK || !strings.Contains(first.body, `"input_tokens":80`) {
			t.Fatalf("got %d %s", first.status, first.body)
		}
		e := h.entry()
		if e.RequestID != o.ID || e.Endpoint != "reservation" || e.Outcome != "completed" || e.Usage != (tokens.Usage{Input: 80, Output: 20}) || e.KeyID != "k" || e.Team != "t" {
			t.Errorf("recorded as %+v", e)
		}
		again := h.ask(o.path("/settle"), `{"usage":{"prompt_tokens":8000,"completion_tokens":20}}`)
		if again.status != http.StatusOK || again.body != first.body {
			t.Errorf("the repeat got %d %s, want the first answer", again.status, again.body)
		}
		if used := h.limiter.total(budget.Tokens); used != 100 || h.limiter.open() != 0 {
			t.Errorf("%d were charged, want 100", used)
		}
		if n := len(h.entries.all); n != 1 {
			t.Errorf("%d records, want 1", n)
		}
		for _, s := range []struct{ method, body string }{{"DELETE " + o.path(), ""}, {"PATCH " + o.path(), `{"ttl":"5m"}`}} {
			if a := h.ask(s.method, s.body); a.status != http.StatusConflict || a.header.Get("X-Llmgw-Error-Code") != "already_ended" {
				t.Errorf("%s after the settle: got %d %s", s.method, a.status, a.body)
			}
		}
	})
}

func TestADeletedReservationGivesAllBack(t *testing.T) {
	inHouse(t, setting{}, nil, func(h *house) {
		o := h.reserveOutside(`{"model":"m","body":{"messages":[{"role":"user","content":"hello"}],"max_tokens":10}}`)
		for range 2 {
			if a := h.ask("DELETE "+o.path(), ""); a.status != http.StatusNoContent || a.body != "" {
				t.Fatalf("got %d %s, want 204", a.status, a.body)
			}
		}
		for _, u := range []budget.Unit{budget.Tokens, budget.Requests} {
			if remaining, open := h.left(u); open != 0 || remaining != 1_000_000_000 {
				t.Errorf("%s: got %d left and %d open, want all back", u, remaining, open)
			}
		}
		if a := h.ask(o.path("/settle"), `{"amounts":{"tokens":1}}`); a.status != http.StatusConflict {
			t.Errorf("a settle after it: got %d %s", a.status, a.body)
		}
	})
}

func TestAReservationEndsAtItsTTLUnlessItIsProlonged(t *testing.T) {
	inHouse(t, setting{rules: func(r *Rules) { r.CrashCharge = budget.ChargeFull }}, nil, func(h *house) {
		short := h.reserveOutside(`{"amounts":{"tokens":100},"ttl":"30s"}`)
		long := h.reserveOutside(`{"amounts":{"tokens":1000},"ttl":30}`)
		time.Sleep(20 * time.Second)
		if a := h.ask("PATCH "+long.path(), `{"ttl":"10m","used":{"tokens":40}}`); a.status != http.StatusOK {
			t.Fatalf("got %d %s", a.status, a.body)
		}
		time.Sleep(20 * time.Second)
		got, err := h.limiter.Reclaim(t.Context(), time.Hour, 10)
		if err != nil || got.Records != 1 {
			t.Fatalf("reclaimed %+v, %v, want the short one", got, err)
		}
		h.Book(got.Ended)
		if e := h.entry(); e.RequestID != short.ID || e.Endpoint != "reservation" || e.Outcome != "reclaimed" || e.Usage.Input != 100 {
			t.Errorf("recorded as %+v", e)
		}
		if a := h.ask(short.path("/settle"), `{"amounts":{"tokens":1}}`); a.status != http.StatusConflict {
			t.Errorf("a settle of what its ttl has ended: got %d %s", a.status, a.body)
		}
		if a := h.ask(long.path("/settle"), `{"amounts":{"tokens":60}}`); a.status != http.StatusOK {
			t.Errorf("a settle of what was prolonged: got %d %s", a.status, a.body)
		}
		if _, open := h.left(budget.Tokens); open != 0 {
			t.Errorf("%d are open at the end", open)
		}
	})
}

func TestAReservationIsExtendedAndSettledAsOne(t *testing.T) {
	inHouse(t, setting{}, nil, func(h *house) {
		o := h.reserveOutside(`{"amounts":{"tokens":100}}`)
		for range 2 {
			if a := h.ask("PATCH "+o.path(), `{"extend":{"tokens":50}}`); a.status != http.StatusOK {
				t.Fatalf("got %d %s", a.status, a.body)
			}
		}
		if _, open := h.left(budget.Tokens); open != 200 {
			t.Errorf("%d are open, want 200", open)
		}
		a := h.ask("PATCH "+o.path(), `{"extend":{"tokens":2000000000}}`)
		if a.status != http.StatusBadRequest || a.header.Get("X-Llmgw-Error-Code") != "exceeds_limit" || a.header.Get("X-Llmgw-Limited-By") == "" {
			t.Errorf("too much: got %d %s", a.status, a.body)
		}
		h.another(func(other *house) {
			if a := other.ask(o.path("/settle"), `{"amounts":{"tokens":170}}`); a.status != http.StatusOK {
				t.Errorf("got %d %s", a.status, a.body)
			}
		})
		if used := h.limiter.total(budget.Tokens); used != 170 || h.limiter.open() != 0 {
			t.Errorf("%d were charged, want 170", used)
		}
	})
}

func TestUsageIsReadInTheFormOfEveryAPI(t *testing.T) {
	inHouse(t, setting{}, nil, func(h *house) {
		for _, usage := range []string{
			`{"prompt_tokens":30,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":10}}`,
			`{"input_tokens":30,"output_tokens":12,"input_tokens_details":{"cached_tokens":10}}`,
			`{"input_tokens":20,"output_tokens":12,"cache_read_input_tokens":10,"cache_creation_input_tokens":0}`,
			`{"promptTokenCount":30,"candidatesTokenCount":12,"cachedContentTokenCount":10,"totalTokenCount":42}`,
			`{"inputTokens":20,"outputTokens":12,"cacheReadInputTokens":10,"totalTokens":42}`,
			`{"prompt_eval_count":30,"eval_count":12}`,
			`{"billed_units":{"input_tokens":30,"output_tokens":12},"tokens":{"input_tokens":30,"output_tokens":12}}`,
			`{"input_tokens":30,"output_tokens":12}`,
		} {
			o := h.reserveOutside(`{"model":"m","input_tokens":100,"max_output_tokens":50}`)
			a := h.ask(o.path("/settle"), `{"usage":`+usage+`}`)
			if a.status != http.StatusOK || !strings.Contains(a.body, `"input_tokens":30,`) || !strings.Contains(a.body, `"output_tokens":12,`) {
				t.Errorf("%s: got %d %s", usage, a.status, a.body)
			}
		}
	})
}

func TestAnotherTeamsReservationIsNotThere(t *testing.T) {
	two := func(r *Rules) {
		directory, err := tenant.NewDirectory([]tenant.Team{
			{Name: "t", Weight: 1, Limits: []*budget.Limit{houseLimit(budget.Tokens), houseLimit(budget.Requests)}, Keys: []tenant.Key{houseKeyOf("k", houseKey), houseKeyOf("k2", "sk-same")}},
			{Name: "other", Weight: 1, Keys: []tenant.Key{houseKeyOf("o", "sk-other")}},
		})
		if err != nil {
			t.Fatal(err)
		}
		r.Directory = directory
	}
	inHouse(t, setting{rules: two}, nil, func(h *house) {
		o := h.reserveOutside(`{"model":"m","input_tokens":1}`)
		for _, call := range [][2]string{{o.path("/settle"), `{"amounts":{"tokens":1}}`}, {"PATCH " + o.path(), `{"ttl":"2m"}`}, {"DELETE " + o.path(), ""}, {reservationsPath + "/rsv_none/settle", `{"amounts":{"tokens":1}}`}} {
			a := h.ask(call[0], call[1], "Authorization", "Bearer sk-other")
			if a.status != http.StatusNotFound || a.header.Get("X-Llmgw-Error-Code") != "not_found" {
				t.Errorf("%s: got %d %s, want 404", call[0], a.status, a.body)
			}
		}
		if a := h.ask(o.path("/settle"), `{"amounts":{"tokens":1}}`, "Authorization", "Bearer sk-same"); a.status != http.StatusOK {
			t.Errorf("another key of the team: got %d %s", a.status, a.body)
		}
	})
}

func TestAReservationThatMakesNoSenseIsRefused(t *testing.T) {
	inHouse(t, setting{}, nil, func(h *house) {
		o := h.reserveOutside(`{"model":"m","input_tokens":1}`)
		settle, patch := o.path("/settle"), "PATCH "+o.path()
		for _, call := range [][2]string{
			{reservationsPath, ``}, {reservationsPath, `[]`}, {reservationsPath, `null`}, {reservationsPath, `{}`}, {reservationsPath, `{"model":"m"}`}, {reservationsPath, `{"input_tokens":1}`},
			{reservationsPath, `{"model":"m","input_tokens":-1}`}, {reservationsPath, `{"model":"m","input_tokens":1e99}`}, {reservationsPath, `{"model":"m","input_tokens":1,"ttl":"25h"}`},
			{reservationsPath, `{"model":"m","input_tokens":1,"ttl":0}`}, {reservationsPath, `{"model":"m","input_tokens":1,"max_wait":-1}`}, {reservationsPath, `{"model":"m","input_tokens":1,"max_wait":"soon"}`},
			{reservationsPath, `{"amounts":{"apples":1}}`}, {reservationsPath, `{"amounts":{"tokens":-1}}`}, {reservationsPath, `{"amounts":{"tokens":9007199254740992}}`},
			{reservationsPath, `{"model":"m","input_tokens":1,"unknown":1}`}, {reservationsPath, `{"model":"m","input_tokens":1} {}`}, {reservationsPath, `{"model":"m","path":"/nowhere","body":{}}`},
			{reservationsPath, `{"model":"m","body":"text"}`}, {reservationsPath, `{"model":"m","body":{"messages":[]},"input_tokens":1}`},
			{settle, `{}`}, {settle, `{"usage":{}}`}, {settle, `{"usage":null}`}, {settle, `{"usage":{"input_tokens":1},"amounts":{"tokens":1}}`}, {settle, `{"usage":"many"}`}, {settle, `{"amounts":{"tokens":1},"outcome":"splendid"}`},
			{patch, `{"ttl":"25h"}`}, {patch, `{"extend":{"apples":1}}`}, {patch, `{"used":{}}`},
		} {
			a := h.ask(call[0], call[1])
			if a.status != http.StatusBadRequest || a.header.Get("X-Llmgw-Error-Code") != string(fault.InvalidRequest) {
				t.Errorf("%s %s: got %d %s, want 400", call[0], call[1], a.status, a.body)
			}
		}
		if _, open := h.left(budget.Tokens); open != 1+4096 {
			t.Errorf("%d are open, want the one reservation's", open)
		}
	})
}

// Who is refused here is refused as a proxied call would be: status, headers, body.
func TestRefusalsEqualTheProxys(t *testing.T) {
	const large = `{"model":"m","max_tokens":1000,"messages":[{"role":"user","content":"hello"}]}`
	gateway := func(u budget.Unit) budget.Limit {
		l := *houseLimit(u)
		l.Place, l.Scope, l.Owner = "gateway", budget.Gateway, ""
		return l
	}
	full := func(u budget.Unit, amount, burst int64) func(*Rules) {
		return func(r *Rules) {
			l := gateway(u)
			l.Amount, l.Burst, l.Bank = amount, burst, 4
			if u == budget.Concurrency {
				l.Algorithm, l.Period, l.Burst = budget.Slots, "", 0
			}
			r.Limits = []*budget.Limit{&l}
		}
	}
	for _, s := range []struct {
		code   fault.Code
		rules  func(*Rules)
		body   string
		header []string
		first  string // reserved before
		block  tenant.Block
	}{
		{code: fault.InvalidAPIKey, body: large, header: []string{"Authorization", "Bearer sk-none"}},
		{code: fault.ModelNotFound, body: strings.Replace(large, `"m"`, `"none"`, 1)},
		{code: fault.ModelNotAllowed, body: large, rules: func(r *Rules) { r.Directory = narrow(t) }},
		{code: fault.InvalidRequest, body: `{"model":7,"max_tokens":1000}`},
		{code: fault.InvalidRequest, body: large, header: []string{"X-LLMGW-Max-Wait", "soon"}},
		{code: fault.ExceedsLimit, body: large, rules: full(budget.Tokens, 100, 100)},
		{code: fault.RateLimitExceeded, body: large, rules: full(budget.Tokens, 1500, 1500), first: `{"amounts":{"tokens":1400}}`},
		{code: fault.InsufficientQuota, body: large, first: `{"amounts":{"tokens":1400}}`, rules: func(r *Rules) {
			l := gateway(budget.Tokens)
			l.Algorithm, l.Period, l.Amount, l.Burst, l.Location = budget.CalendarUsage, budget.Month, 1500, 0, time.UTC
			r.Limits = []*budget.Limit{&l}
		}},
		{code: fault.ConcurrencyExceeded, body: large, rules: full(budget.Concurrency, 1, 0), first: `{"amounts":{"tokens":1}}`},
		{code: fault.Blocked, body: large, block: tenant.Block{Scope: "team", Value: "t", Reason: "spent too much"}},
	} {
		t.Run(string(s.code), func(t *testing.T) {
			inHouse(t, setting{rules: s.rules}, nil, func(h *house) {
				if s.block.Scope != "" {
					if _, err := h.Blocks.Add(t.Context(), s.block); err != nil {
						t.Fatal(err)
					}
				}
				if s.first != "" {
					h.reserveOutside(s.first)
				}
				want := h.ask(chatPath, s.body, s.header...)
				if got := want.header.Get("X-Llmgw-Error-Code"); got != string(s.code) {
					t.Fatalf("the proxy: got %d %s, want %s", want.status, want.body, s.code)
				}
				for _, path := range []string{reservationsPath, "/llmgw/v1/check"} {
					sameRefusal(t, path, h.ask(path, fmt.Sprintf(`{"body":%s}`, s.body), s.header...), want)
				}
			})
		})
	}
}

// sameRefusal compares two refusals, but for their ids and the jitter of a wait
// that nobody knows.
func sameRefusal(t *testing.T, what string, got, want answer) {
	t.Helper()
	plain := func(a answer) string {
		text := strings.ReplaceAll(a.body, a.header.Get("X-Llmgw-Request-Id"), "ID")
		if a.header.Get("X-Llmgw-Error-Code") == string(fault.ConcurrencyExceeded) {
			text = regexp.MustCompile(`"retry_after_ms":\d+`).ReplaceAllString(text, "")
		}
		names := []string{}
		for name := range a.header {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			v := a.header.Get(name)
			switch name {
			case "X-Llmgw-Request-Id", "X-Request-Id", "Content-Length", "Date":
				v = "…"
			case "Retry-After", "Retry-After-Ms", "X-Llmgw-Queue-Wait":
				if a.header.Get("X-Llmgw-Error-Code") == string(fault.ConcurrencyExceeded) {
					v = "…"
				}
			}
			text += "\n" + name + ": " + v
		}
		return fmt.Sprint(a.status, " ", text)
	}
	if g, w := plain(got), plain(want); g != w {
		t.Errorf("%s: got\n%s\nwant\n%s", what, g, w)
	}
}

func TestCheckTakesNothingAndEstimateTellsThePartsOfABody(t *testing.T) {
	inHouse(t, setting{}, nil, func(h *house) {
		const body = `{"model":"m","path":"/v1/chat/completions","body":{"max_tokens":10,"messages":[{"role":"user","content":"hello"}]}}`
		if a := h.ask("/llmgw/v1/check", body); a.status != http.StatusOK || !strings.Contains(a.body, `"outcome":"granted"`) || a.header.Get("Ratelimit") == "" {
			t.Errorf("check: got %d %s", a.status, a.body)
		}
		if remaining, open := h.left(budget.Tokens); open != 0 || remaining != 1_000_000_000 {
			t.Errorf("check took something: %d left, %d open", remaining, open)
		}
		a := h.ask("/llmgw/v1/estimate", body)
		if a.status != http.StatusOK || !strings.Contains(a.body, `"output_tokens":10,"total_tokens":`) || !strings.Contains(a.body, `"parts":{`) {
			t.Errorf("estimate: got %d %s", a.status, a.body)
		}
		if n := len(h.entries.all); n != 0 {
			t.Errorf("%d records, want none", n)
		}
	})
}

func TestABatchIsAnsweredInItsOrder(t *testing.T) {
	inHouse(t, setting{}, nil, func(h *house) {
		var got struct {
			Answers []struct {
				Status int
				Header map[string]string
				Body   json.RawMessage
			}
		}
		a := h.ask(reservationsPath+":batch", `{"operations":[{"reserve":{"amounts":{"tokens":7}}},{"reserve":{"model":"none","input_tokens":1}},{"reserve":{"amounts":{"tokens":9}}},{}]}`)
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != http.StatusOK || len(got.Answers) != 4 {
			t.Fatalf("got %d %s", a.status, a.body)
		}
		for i, want := range []int{201, 404, 201, 400} {
			if got.Answers[i].Status != want {
				t.Errorf("answer %d: got %d %s, want %d", i, got.Answers[i].Status, got.Answers[i].Body, want)
			}
		}
		if got.Answers[1].Header["X-Llmgw-Error-Code"] != "model_not_found" {
			t.Errorf("got %v", got.Answers[1].Header)
		}
		var first opened
		if err := json.Unmarshal(got.Answers[0].Body, &first); err != nil {
			t.Fatal(err)
		}
		a = h.ask(reservationsPath+":batch", fmt.Sprintf(`{"operations":[{"id":%q,"settle":{"amounts":{"tokens":3}}},{"id":%q,"delete":true}]}`, first.ID, "rsv_none"))
		if !strings.Contains(a.body, `{"status":200,`) || !strings.Contains(a.body, `{"status":404,`) {
			t.Errorf("got %s", a.body)
		}
		if remaining, open := h.left(budget.Tokens); open != 9 || remaining != 1_000_000_000-12 {
			t.Errorf("got %d left and %d open, want 9 open and 3 used", remaining, open)
		}
		if a := h.ask(reservationsPath+":other", `{}`); a.status != http.StatusNotFound {
			t.Errorf("another verb: got %d", a.status)
		}
	})
}

// houseKeyOf is a key with a secret.
func houseKeyOf(id, secret string) tenant.Key {
	return tenant.Key{ID: id, SHA256: sha256.Sum256([]byte(secret))}
}

// narrow is a directory whose team may use no model that there is.
func narrow(t *testing.T) *tenant.Directory {
	t.Helper()
	d, err := tenant.NewDirectory([]tenant.Team{{Name: "t", Weight: 1, Models: map[string]bool{"x": true}, Keys: []tenant.Key{houseKeyOf("k", houseKey)}}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
