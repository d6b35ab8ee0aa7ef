package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"llmgw/internal/tokens"
)

func newTestMetrics(t *testing.T) *Metrics {
	t.Helper()
	return NewMetrics(Build{Version: "1.2.3", Commit: "abc", GoVersion: "go1.26"}, 1000)
}

// scrape returns what /metrics shows, sorted lines without comments.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("scrape: status %d, %v: %s", w.Code, err, body)
	}
	return string(body)
}

// everything calls every method of m once, so that each metric has a series.
func everything(m *Metrics) {
	m.Inflight(3)
	m.RequestDone(RequestLabels{"search", "gpt-4o", "/v1/chat/completions", 200, "completed"},
		Timing{Total: 2 * time.Second, Overhead: time.Millisecond, FirstToken: 300 * time.Millisecond})
	m.Tokens("search", "gpt-4o", tokens.Usage{Input: 10, CachedInput: 4, CacheWrite: 3, Output: 7, Reasoning: 2})
	m.SettlementEstimated("search", "gpt-4o")
	m.Reserved("search", "gpt-4o", 100)
	m.Refunded("search", "gpt-4o", 83)
	m.Overrun("search", "gpt-4o", 5)
	m.ReservationsOpen(func() int { return 4 })
	m.Reservations("settled", 2)
	m.Rejection("team", "tpm", "rate_limit_exceeded", "search", "enforce")
	m.EstimateRatio("gpt-4o", 0.97)
	m.EstimateSeconds("gpt-4o", 40*time.Microsecond)
	m.QueueWait("openai", 20*time.Millisecond)
	m.Cost("search", "gpt-4o", "openai", 2_500_000)
	m.Provider("openai", "gpt-4o", 2*time.Second, time.Second)
	m.Configured("ads", "gpt-4o", []string{"openai"})
	m.UpstreamRequest("openai", 200)
	m.UpstreamRequest("openai", 0)
	m.UpstreamRemaining("openai", "requests", 4999)
	m.UpstreamResting("openai", "refused", 0)
	m.UpstreamRest("openai", "spent")
	m.UpstreamResting("openai", "spent", 1)
	m.StoreCall("reserve", 400*time.Microsecond, nil)
	m.StoreCall("settle", time.Millisecond, errors.New("broken pipe"))
	m.StoreUp(true)
	m.ClockStep(-6 * time.Second)
	m.ConfigReloaded(true)
	m.LimitDrift(2)
	m.LimitLevels(func(context.Context) []Level {
		return []Level{{"team", "search", "tpm", "tokens", -12, 100000, 200000, "minute", "enforce"}, {"gateway", "", "usd", "usd", 1.25, 500, 500, "month", "shadow"}}
	})
}

func TestEveryMetricOfTheProductIsShownWithItsLabels(t *testing.T) {
	m := newTestMetrics(t)
	everything(m)
	got := scrape(t, m)
	for _, want := range []string{
		`llmgw_requests_total{endpoint="/v1/chat/completions",model="gpt-4o",outcome="completed",status="200",team="search"} 1`,
		`llmgw_tokens_total{kind="input",model="gpt-4o",team="search"} 10`,
		`llmgw_tokens_total{kind="output",model="gpt-4o",team="search"} 7`,
		`llmgw_cost_usd_total{model="gpt-4o",provider="openai",team="search"} 2.5`,
		`llmgw_cost_usd_total{model="gpt-4o",provider="openai",team="ads"} 0`,
		`llmgw_tokens_total{kind="output",model="gpt-4o",team="ads"} 0`,
		`llmgw_provider_seconds_sum{model="gpt-4o",provider="openai"} 2`,
		`llmgw_provider_first_token_seconds_sum{model="gpt-4o",provider="openai"} 1`,
		`llmgw_limit_capacity{mode="enforce",name="tpm",owner="search",per="minute",scope="team",unit="tokens"} 200000`,
		`llmgw_token_details_total{kind="cached_input",model="gpt-4o",team="search"} 4`,
		`llmgw_token_details_total{kind="cache_write",model="gpt-4o",team="search"} 3`,
		`llmgw_token_details_total{kind="reasoning",model="gpt-4o",team="search"} 2`,
		`llmgw_settlements_estimated_total{model="gpt-4o",team="search"} 1`,
		`llmgw_reserved_tokens_total{model="gpt-4o",team="search"} 100`,
		`llmgw_refunded_tokens_total{model="gpt-4o",team="search"} 83`,
		`llmgw_overrun_tokens_total{model="gpt-4o",team="search"} 5`,
		`llmgw_reservations_open 4`,
		`llmgw_reservations_total{result="settled"} 2`,
		`llmgw_limit_remaining{mode="enforce",name="tpm",owner="search",per="minute",scope="team",unit="tokens"} -12`,
		`llmgw_limit_amount{mode="enforce",name="tpm",owner="search",per="minute",scope="team",unit="tokens"} 100000`,
		`llmgw_limit_remaining{mode="shadow",name="usd",owner="",per="month",scope="gateway",unit="usd"} 1.25`,
		`llmgw_rejections_total{code="rate_limit_exceeded",limit="tpm",mode="enforce",scope="team",team="search"} 1`,
		`llmgw_estimate_ratio_bucket{model="gpt-4o",le="0.98"} 1`,
		`llmgw_estimate_ratio_bucket{model="gpt-4o",le="0.95"} 0`,
		`llmgw_estimate_seconds_count{model="gpt-4o"} 1`,
		`llmgw_overhead_seconds_sum 0.001`,
		`llmgw_time_to_first_token_seconds_sum{model="gpt-4o"} 0.3`,
		`llmgw_request_seconds_sum{model="gpt-4o"} 2`,
		`llmgw_queue_wait_seconds_sum{provider="openai"} 0.02`,
		`llmgw_upstream_requests_total{provider="openai",status="200"} 1`,
		`llmgw_upstream_requests_total{provider="openai",status="none"} 1`,
		`llmgw_upstream_remaining{provider="openai",unit="requests"} 4999`,
		`llmgw_upstream_rests_total{cause="refused",provider="openai"} 0`,
		`llmgw_upstream_rests_total{cause="spent",provider="openai"} 1`,
		`llmgw_upstream_resting{cause="spent",provider="openai"} 1`,
		`llmgw_inflight_requests 3`,
		`llmgw_store_seconds_count{op="reserve"} 1`,
		`llmgw_store_errors_total{op="reserve"} 0`,
		`llmgw_store_errors_total{op="settle"} 1`,
		`llmgw_store_up 1`,
		`llmgw_store_clock_steps_total 1`,
		`llmgw_config_last_reload_successful 1`,
		`llmgw_limit_drift 2`,
		`llmgw_build_info{commit="abc",go_version="go1.26",version="1.2.3"} 1`,
		`go_goroutines `,
		`process_cpu_seconds_total `,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestALabelShowsItsFirstValuesAndTheRestAsOther(t *testing.T) {
	m := NewMetrics(Build{}, 3)
	for i := range 1000 {
		m.Rejection("team", "tpm", "rate_limit_exceeded", fmt.Sprintf("team-%d", i), "enforce")
	}
	m.Rejection("team", "tpm", "rate_limit_exceeded", "team-1", "enforce")
	got := scrape(t, m)
	if n := strings.Count(got, "llmgw_rejections_total{"); n != 4 {
		t.Errorf("%d series, want 3 and other", n)
	}
	for _, want := range []string{`team="team-0"} 1`, `team="team-1"} 2`, `team="team-2"} 1`, `team="other"} 997`} {
		if !strings.Contains(got, want) {
			t.Errorf("missing: %s", want)
		}
	}
	m.Tokens("team-999", "gpt-4o", tokens.Usage{Input: 1})
	if got := scrape(t, m); !strings.Contains(got, `llmgw_tokens_total{kind="input",model="gpt-4o",team="other"} 1`) {
		t.Error("a team that is other in one metric is not in the next")
	}
}

// Case I2: a hundred thousand different values leave a bounded number of series.
func TestHundredThousandValuesLeaveBoundedSeries(t *testing.T) {
	m := NewMetrics(Build{}, 50)
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 25_000 {
				name := fmt.Sprintf("v-%d-%d", worker, i)
				m.Tokens("t", name, tokens.Usage{Input: 1})
				m.UpstreamRequest(name, i)
				m.StoreCall(name, time.Millisecond, nil)
			}
		})
	}
	all.Wait()
	got := scrape(t, m)
	if n := strings.Count(got, `llmgw_tokens_total{kind="input"`); n != 51 {
		t.Errorf("%d series of tokens, want 50 and other", n)
	}
	if n := strings.Count(got, "llmgw_store_errors_total{"); n != 51 {
		t.Errorf("%d series of store errors, want 50 and other", n)
	}
	if n := strings.Count(got, "llmgw_upstream_requests_total{"); n > 51*501 {
		t.Errorf("%d series of upstream requests", n)
	}
	if want := `llmgw_tokens_total{kind="input",model="other",team="t"} 99950`; !strings.Contains(got, want) {
		t.Errorf("missing: %s", want)
	}
}

func TestHostileValuesDoNotPanicAndStayReadable(t *testing.T) {
	m := newTestMetrics(t)
	for _, v := range []string{"", "\xff\xfe", strings.Repeat("x", 1<<20), "a\"b\\c\nd", "other"} {
		m.Tokens(v, v, tokens.Usage{Input: -5, Output: 1})
		m.RequestDone(RequestLabels{v, v, v, -7, v}, Timing{Overhead: -time.Second})
		m.Rejection(v, v, v, v, v)
	}
	for _, ratio := range []float64{math.NaN(), math.Inf(1), -1} {
		m.EstimateRatio("m", ratio)
	}
	m.Reservations("settled", -3)
	got := scrape(t, m)
	if strings.Contains(got, "NaN") || strings.Contains(got, "llmgw_estimate_ratio_count") {
		t.Error("a ratio that is none was counted")
	}
	if !strings.Contains(got, `status="none"`) {
		t.Error("an implausible status is not shown as none")
	}
	if longest := len(strings.Repeat("x", maxLabelLength+1)); strings.Contains(got, strings.Repeat("x", longest)) {
		t.Error("a label of a megabyte is shown")
	}
}

func TestACallersDepartureIsNoErrorOfTheStore(t *testing.T) {
	m := newTestMetrics(t)
	m.StoreCall("reserve", time.Millisecond, fmt.Errorf("reserve: %w", context.Canceled))
	m.StoreCall("reserve", time.Millisecond, fmt.Errorf("reserve: %w", context.DeadlineExceeded))
	if got := scrape(t, m); !strings.Contains(got, `llmgw_store_errors_total{op="reserve"} 1`) {
		t.Error("want one error, the timeout")
	}
}

func TestABoundedValueDoesNotKeepTheBodyItCameFrom(t *testing.T) {
	b := newBound(10)
	body := strings.Repeat("model", 1000)
	shown := b.value(body[:5])
	if shown != "model" {
		t.Fatalf("got %q", shown)
	}
	if unsafe.StringData(shown) == unsafe.StringData(body) {
		t.Error("the label is a slice of the body")
	}
	for kept := range b.seen {
		if unsafe.StringData(kept) == unsafe.StringData(body) {
			t.Error("the bound keeps a slice of the body")
		}
	}
}

func TestTheHotPathDoesNotAllocate(t *testing.T) {
	m := newTestMetrics(t)
	everything(m)
	for what, call := range map[string]func(){
		"RequestDone": func() {
			m.RequestDone(RequestLabels{"search", "gpt-4o", "/v1/chat/completions", 200, "completed"},
				Timing{Total: time.Second, Overhead: time.Millisecond, FirstToken: time.Second})
		},
		"Tokens":          func() { m.Tokens("search", "gpt-4o", tokens.Usage{Input: 10, Output: 7}) },
		"Reserved":        func() { m.Reserved("search", "gpt-4o", 10) },
		"Rejection":       func() { m.Rejection("team", "tpm", "rate_limit_exceeded", "search", "enforce") },
		"StoreCall":       func() { m.StoreCall("reserve", time.Millisecond, nil) },
		"UpstreamRequest": func() { m.UpstreamRequest("openai", 200) },
		"Inflight":        func() { m.Inflight(1) },
	} {
		if n := testing.AllocsPerRun(100, call); n != 0 {
			t.Errorf("%s allocates %v times", what, n)
		}
	}
}

func BenchmarkOneRequest(b *testing.B) {
	m := NewMetrics(Build{}, 1000)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Inflight(1)
			m.Reserved("search", "gpt-4o", 100)
			m.StoreCall("reserve", time.Millisecond, nil)
			m.UpstreamRequest("openai", 200)
			m.Tokens("search", "gpt-4o", tokens.Usage{Input: 10, Output: 7})
			m.Refunded("search", "gpt-4o", 83)
			m.RequestDone(RequestLabels{"search", "gpt-4o", "/v1/chat/completions", 200, "completed"},
				Timing{Total: time.Second, Overhead: time.Millisecond, FirstToken: time.Second})
			m.Inflight(-1)
		}
	})
}
