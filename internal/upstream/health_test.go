package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/fault"
)

// byKey is a transport whose answers depend on the key, and on the model where
// one is named: "key", "key model". It counts what each was asked.
type byKey struct {
	mu      sync.Mutex
	answers map[string]answer
	asked   map[string]int
}

func (b *byKey) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	a, ok := b.answers[key+" "+r.Header.Get("X-Model")]
	if !ok {
		a, ok = b.answers[key]
	}
	if !ok {
		a = answer{status: 200, body: "fine\n"}
	}
	if b.asked == nil {
		b.asked = map[string]int{}
	}
	b.asked[key]++
	h := http.Header{}
	for k, v := range a.header {
		h.Set(k, v)
	}
	return &http.Response{StatusCode: a.status, Header: h, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

func (b *byKey) set(key string, a answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[key] = a
}

func (b *byKey) client(m *memory, w *watcher, log *slog.Logger, ps ...*Provider) *Client {
	c := Config{Providers: ps, Transport: func(*Provider) http.RoundTripper { return b }, Logger: log, Observer: w}
	if m != nil {
		c.Limiter = m
	}
	if w == nil {
		c.Observer = nobody{}
	}
	return New(c)
}

const deadKey, goodKey = "sk-proj-dead-000000000000-dead", "sk-proj-good-000000000000-good"

// What providers answer to a credential that is no good, and the cause that it is.
var credentialRefusals = []struct {
	what  string
	a     answer
	cause cause
}{
	{"OpenAI's 401", answer{status: 401, header: map[string]string{"WWW-Authenticate": `Bearer realm="OpenAI API"`}, body: `{"error":{"message":"Incorrect API key provided: sk-proj-********dead.","type":"invalid_request_error","code":"invalid_api_key"}}`}, refused},
	{"Anthropic's 401", answer{status: 401, body: `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`}, refused},
	{"a 401 that says nothing", answer{status: 401}, refused},
	{"Cohere's 498", answer{status: 498, body: `{"message":"invalid api token"}`}, refused},
	{"Google's 400", answer{status: 400, body: `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"t","reason":"API_KEY_INVALID"}]}}`}, refused},
	{"a disabled organization, 400", answer{status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"This organization has been disabled."}}`}, refused},
	{"Groq's restricted organization", answer{status: 400, body: `{"error":{"message":"Organization has been restricted.","type":"invalid_request_error","code":"organization_restricted"}}`}, refused},
	{"AWS's token", answer{status: 403, header: map[string]string{"X-Amzn-Errortype": "ExpiredTokenException:http://x"}, body: `{"message":"The security token included in the request is expired"}`}, refused},
	{"DeepSeek's 402", answer{status: 402, body: `{"error":{"message":"Insufficient Balance","type":"unknown_error"}}`}, spent},
	{"OpenAI's quota", answer{status: 429, header: map[string]string{"Retry-After": "1"}, body: spentBody}, spent},
	{"OpenAI's hard limit, 400", answer{status: 400, body: `{"error":{"message":"Billing hard limit has been reached","type":"invalid_request_error","code":"billing_hard_limit_reached"}}`}, spent},
	{"Anthropic's balance, 400", answer{status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`}, spent},
	{"Anthropic's own limit, 400", answer{status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01."}}`}, spent},
	{"Anthropic's spend limit", answer{status: 429, body: `{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}`}, spent},
	{"Gemini's day", answer{status: 429, body: `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel"}]},{"retryDelay":"1s"}]}}]`}, spent},
	{"xAI's credits", answer{status: 403, body: `{"code":"The caller does not have permission","error":"Your team abc has either used all available credits or reached its monthly spending limit."}`}, spent},
	{"a 403", answer{status: 403, body: `{"error":{"message":"Project does not have access to model","code":"model_not_found"}}`}, denied},
	{"Bedrock's 403", answer{status: 403, header: map[string]string{"X-Amzn-Errortype": "AccessDeniedException"}, body: `{"message":"You don't have access to the model with the specified model ID."}`}, denied},
	{"a scope that the key lacks", answer{status: 401, body: `{"error":{"message":"You have insufficient permissions for this operation. Missing scopes: model.request."}}`}, denied},
	{"a stream that begins with it", answer{status: 200, body: "ready\nerror 401\n"}, refused},
	{"a stream that begins with a spent quota", answer{status: 200, body: "error 402\n"}, spent},
}

func TestACallGoesOnWithAnotherKeyWhenOneIsRefused(t *testing.T) {
	for _, s := range credentialRefusals {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			b, w := &byKey{answers: map[string]answer{deadKey: s.a}}, &watcher{}
			p := provider("a", func(p *Provider) { p.APIKeys, p.Retries = []string{deadKey, goodKey}, 0 })
			c := b.client(nil, w, slog.New(slog.NewTextHandler(&log, nil)), p)
			start := time.Now()
			for i := range 30 { // a call each second
				j := job(fmt.Sprint("r", i), Target{Provider: p, Weight: 1})
				if strings.HasPrefix(s.what, "a stream") {
					j = streaming(j)
				}
				r, err := c.Do(t.Context(), j)
				if err != nil {
					t.Fatalf("%s: call %d: %v", s.what, i, err)
				}
				if whole(t, r); r.Status != 200 {
					t.Errorf("%s: call %d has status %d", s.what, i, r.Status)
				}
				time.Sleep(time.Second)
			}
			if n := b.asked[deadKey]; n < 1 || n > 3 {
				t.Errorf("%s: the dead key was asked %d times in %s", s.what, n, time.Since(start))
			}
			if want := fmt.Sprint("a ", s.cause); len(w.rests) != b.asked[deadKey] || w.rests[0] != want {
				t.Errorf("%s: the observer was told of %q, want %q", s.what, w.rests, want)
			}
			if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, `credential="1 of 2"`) || strings.Contains(text, "dead-0") {
				t.Errorf("%s: the log says %s", s.what, text)
			}
		})
	}
}

func TestACallGoesOnWithAnotherTargetWhenTheOnlyKeyIsRefused(t *testing.T) {
	for _, s := range credentialRefusals {
		synctest.Test(t, func(t *testing.T) {
			b := &byKey{answers: map[string]answer{deadKey: s.a}}
			a := provider("a", func(p *Provider) { p.APIKeys, p.Retries = []string{deadKey}, 0 })
			spare := provider("spare", func(p *Provider) { p.APIKeys = []string{goodKey} })
			c := b.client(nil, nil, nil, a, spare)
			for range 5 {
				r, err := c.Do(t.Context(), streaming(job("r", Target{Provider: a, Weight: 1}, Target{Provider: spare})))
				if err != nil {
					t.Fatalf("%s: %v", s.what, err)
				}
				if whole(t, r); r.Status != 200 || r.Target.Provider != spare {
					t.Errorf("%s: %s answered %d", s.what, r.Target.Provider.Name, r.Status)
				}
			}
			if n := b.asked[deadKey]; n != 1 {
				t.Errorf("%s: the dead key was asked %d times by five calls", s.what, n)
			}
		})
	}
}

// Our credential is not the app's: it sees neither its refusal nor its name.
func TestARefusalOfOurCredentialIsNotShownToTheClient(t *testing.T) {
	for _, s := range credentialRefusals {
		synctest.Test(t, func(t *testing.T) {
			b := &byKey{answers: map[string]answer{deadKey: s.a}}
			p := provider("a", func(p *Provider) { p.APIKeys = []string{deadKey} })
			c := b.client(nil, nil, nil, p)
			for i := range 3 {
				_, err := c.Do(t.Context(), streaming(job("r", Target{Provider: p, Weight: 1})))
				f := fault.From(err)
				if f == nil || f.Code != fault.UpstreamError || f.Status != 0 || !f.NoRetry || strings.Contains(f.Error(), "dead") {
					t.Errorf("%s: call %d: %v", s.what, i, err)
				}
				if failed := (*TargetError)(nil); errors.As(err, &failed) != (i == 0 || s.cause == denied) {
					t.Errorf("%s: call %d: %T, want it to say where it was sent if it was", s.what, i, err)
				}
			}
			want := 1
			if s.cause == denied { // may be the request's: it is asked while nothing else is left
				want = 3
			}
			if n := b.asked[deadKey]; n != want {
				t.Errorf("%s: asked %d times by three calls, want %d", s.what, n, want)
			}
		})
	}
}

func TestAnErrorThatShowsTheKeyIsNotShown(t *testing.T) {
	for _, body := range []string{"bad key " + deadKey, `{"error":{"message":"key sk-proj-****dead has no access"}}`, "key sk-pr...dead"} {
		b := &byKey{answers: map[string]answer{deadKey: {status: 400, body: body}}}
		p := provider("a", func(p *Provider) { p.APIKeys = []string{deadKey} })
		r, err := b.client(nil, nil, nil, p).Do(t.Context(), job("r", Target{Provider: p, Weight: 1}))
		if f := fault.From(err); err == nil || f.Code != fault.UpstreamError || strings.Contains(f.Error(), "dead") {
			t.Errorf("%s: got %v, %v", body, r, err)
		}
	}
}

func TestASpentQuotaIsAskedOnceAMinuteUntilItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &byKey{answers: map[string]answer{deadKey: {status: 429, body: spentBody}}}
		a := provider("a", func(p *Provider) { p.APIKeys = []string{deadKey} })
		spare := provider("spare", func(p *Provider) { p.APIKeys = []string{goodKey} })
		c := b.client(nil, nil, nil, a, spare)
		targets := []Target{{Provider: a, Weight: 1}, {Provider: spare, Weight: 1}}
		for range 600 {
			spread(t, c, 1, targets...)
			time.Sleep(time.Second)
		}
		if n := b.asked[deadKey]; n != 10 {
			t.Errorf("asked %d times in ten minutes", n)
		}
		b.set(deadKey, answer{status: 200, body: "fine\n"})
		time.Sleep(time.Minute)
		if got := spread(t, c, 10, targets...); got["a"] != 5 {
			t.Errorf("once the quota is back, %v served", got)
		}
	})
}

// What a provider asks to wait is kept whether or not limits are configured.
func TestAWaitIsKeptWithoutConfiguredLimits(t *testing.T) {
	for _, status := range []int{429, 503, 529, 500} {
		for _, weight := range []int{0, 1} {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: map[string][]answer{"a": {{status: status, header: map[string]string{"Retry-After": "30"}}, {status: 200}}}}
				a, b := provider("a", nil), provider("b", nil)
				c := client(t, nil, s, nil, a, b)
				targets := []Target{{Provider: a, Weight: 1}, {Provider: b, Weight: weight}}
				for range 20 {
					spread(t, c, 1, targets...)
					time.Sleep(time.Second)
				}
				asked := strings.Count(strings.Join(s.hosts(), ""), "a")
				if asked != 1 {
					t.Errorf("status %d, weight %d: it was asked %d times within its 30 s", status, weight, asked)
				}
				time.Sleep(10 * time.Second)
				if got := spread(t, c, 2, targets...); got["a"] == 0 {
					t.Errorf("after its time %v served", got)
				}
			})
		}
	}
}

func TestTheOnlyTargetsWaitIsWaitedForOrRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: map[string][]answer{"a": {{status: 429, header: map[string]string{"Retry-After": "8"}}, {status: 200, body: "fine\n"}}}}
		p := provider("a", func(p *Provider) { p.Retries = 0 })
		c := client(t, nil, s, nil, p)
		start := time.Now()
		spread(t, c, 1, Target{Provider: p, Weight: 1}) // its refusal is the client's
		j := job("hasty", Target{Provider: p, Weight: 1})
		j.MaxWait = time.Second
		_, err := c.Do(t.Context(), j)
		if f := fault.From(err); err == nil || f.Code != fault.UpstreamCapacity || f.Wait != 8*time.Second || f.NoRetry {
			t.Errorf("who cannot wait gets %v", err)
		}
		if got := spread(t, c, 1, Target{Provider: p, Weight: 1}); got["a"] != 1 || time.Since(start) < 8*time.Second {
			t.Errorf("who can wait was served after %s: %v", time.Since(start), got)
		}
		if len(s.sent) != 2 {
			t.Errorf("%d were sent, want 2", len(s.sent))
		}
	})
}

func TestAWaitAboveAMinuteIsNotToBeSleptThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: map[string][]answer{"a": {{status: 429, header: map[string]string{"Retry-After": "600"}}}}}
		p := provider("a", nil)
		c := client(t, nil, s, nil, p)
		spread(t, c, 1, Target{Provider: p, Weight: 1})
		_, err := c.Do(t.Context(), job("r", Target{Provider: p, Weight: 1}))
		if f := fault.From(err); err == nil || f.Code != fault.UpstreamCapacity || f.Wait != 10*time.Minute || !f.NoRetry {
			t.Errorf("got %v", err)
		}
	})
}

// One model's refusal is no other's, with limits configured and without.
func TestOneModelsRefusalHoldsNoOther(t *testing.T) {
	for _, limits := range []Limits{{}, {RequestsPerMinute: 60_000}} {
		for _, s := range []struct {
			what string
			a    answer
			wide bool
		}{
			{"a rate", answer{status: 429, header: map[string]string{"Retry-After": "20"}}, false},
			{"a model of Google's", answer{status: 429, body: `{"error":{"code":429,"details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]},{"retryDelay":"20s"}]}}`}, false},
			{"a project of Google's", answer{status: 429, body: `{"error":{"code":429,"details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProject"}]},{"retryDelay":"20s"}]}}`}, true},
			{"Anthropic's ramp", answer{status: 429, header: map[string]string{"Retry-After": "20"}, body: `{"type":"error","error":{"type":"rate_limit_error","details":{"error_code":"ramp_limit_exceeded"}}}`}, true},
			{"an overloaded model", answer{status: 503, header: map[string]string{"Retry-After": "20"}}, false},
		} {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				b := &byKey{answers: map[string]answer{"k image": s.a}}
				p := provider("a", func(p *Provider) { p.Limits, p.MaxWait, p.Retries = limits, time.Second, 0 })
				c := b.client(m, nil, nil, p)
				spread(t, c, 1, Target{Provider: p, Model: "image"})
				for range 5 {
					_, err := c.Do(t.Context(), job(fmt.Sprint("image", ids.Add(1)), Target{Provider: p, Model: "image"}))
					if f := fault.From(err); err == nil || f.Code != fault.UpstreamCapacity {
						t.Errorf("%s: the next call of the model: %v", s.what, err)
					}
					r, err := c.Do(t.Context(), job(fmt.Sprint("chat", ids.Add(1)), Target{Provider: p, Model: "chat"}))
					if (err != nil) != s.wide {
						t.Errorf("%s: a call of another model: %v", s.what, err)
					}
					if err == nil {
						whole(t, r)
					}
				}
				m.idle(t)
			})
		}
	}
}

// Those that wait in the queue when the refusal comes are not sent into it.
func TestWhoWaitsInTheQueueIsNotSentIntoARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := &script{answers: map[string][]answer{"a": {{status: 429, after: 500 * time.Millisecond, header: map[string]string{"Retry-After": "5"}}, {status: 200, body: "fine\n"}}}}
		p := provider("a", func(p *Provider) { p.Limits.RequestsPerMinute = 60 })
		c := client(t, m, s, nil, p)
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				r, err := c.Do(t.Context(), job(fmt.Sprint(i), Target{Provider: p, Weight: 1}))
				if err != nil {
					t.Error(err)
					return
				}
				whole(t, r)
			})
		}
		all.Wait()
		if len(s.sent) != 5 {
			t.Errorf("%d were sent for four calls and one refusal", len(s.sent))
		}
		m.idle(t)
	})
}

// An app's own bad requests do not make a target rest for the others.
func TestBadRequestsDoNotMakeATargetRest(t *testing.T) {
	s := &script{answers: map[string][]answer{"a": {{status: 200, body: "error 400\n"}}}}
	a, b := provider("a", nil), provider("b", nil)
	c := client(t, nil, s, nil, a, b)
	for range 3 * tripAfter {
		_, err := c.Do(t.Context(), streaming(job("r", Target{Provider: a, Weight: 1}, Target{Provider: b})))
		if f := fault.From(err); err == nil || f.Status != 400 {
			t.Fatalf("got %v", err)
		}
	}
	if got := c.states["a"].conditions.look("", "asked", time.Now()); got.cause != "" {
		t.Errorf("it rests: %v", got)
	}
}

func TestNoHeaderOfAnAnswerShowsTheKey(t *testing.T) {
	p, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.Header().Set("X-Request-Id", "req_1")
		fmt.Fprint(w, "fine\n")
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"X-Last", "used sk-proj-****dead")
		w.Header().Set(http.TrailerPrefix+"X-Cost", "7")
	}, func(p *Provider) { p.APIKeys = []string{deadKey} })
	r, err := c.Do(t.Context(), job("r", Target{Provider: p}))
	if err != nil {
		t.Fatal(err)
	}
	whole(t, r)
	if h, last := r.Header, r.Trailer(); h.Get("X-Echo") != "" || h.Get("X-Request-Id") != "req_1" || last.Get("X-Last") != "" || last.Get("X-Cost") != "7" {
		t.Errorf("the client would see %v and %v", h, last)
	}
}

// A provider that is down and has no substitute is asked by every call, and the log
// has a line for each rest, not for each call.
func TestTheLogHasALineForEachRestNotForEachCall(t *testing.T) {
	for _, status := range []int{500, 403} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			b, w := &byKey{answers: map[string]answer{deadKey: {status: status}}}, &watcher{}
			p := provider("a", func(p *Provider) { p.APIKeys, p.Retries = []string{deadKey}, 0 })
			c := b.client(nil, w, slog.New(slog.NewTextHandler(&log, nil)), p)
			for i := range 600 {
				r, err := c.Do(t.Context(), job(fmt.Sprint(i), Target{Provider: p, Weight: 1}))
				if err == nil {
					whole(t, r)
				}
				time.Sleep(100 * time.Millisecond)
			}
			if n := strings.Count(log.String(), "level=WARN"); b.asked[deadKey] != 600 || n < 2 || n > 8 || len(w.rests) != n {
				t.Errorf("status %d: %d lines and %d rests of %d calls in a minute", status, n, len(w.rests), b.asked[deadKey])
			}
		})
	}
}
