package blackbox

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"llmgw/internal/gatewaytest"
)

func TestTheMetricsAreThoseThatDashboardsKnow(t *testing.T) {
	s := setup{
		limits:   "{name: tpm, unit: tokens, amount: 60000, per: minute}\n{name: rpd, unit: requests, amount: 4, per: month}",
		common:   "{name: all, unit: usd, amount: 2.5, per: month}",
		models:   "{name: known, targets: [{provider: sim, model: sim-in10-out5-cached4-reason2}], prices: {input: 1, output: 4}, limits: [{name: its, unit: tokens, amount: 70000, per: minute}]}",
		provider: "limits: {requests_per_minute: 60000}",
	}
	s.fake.RPM, s.fake.TPM = 7000, 777_000
	w := start(t, s)
	w.Post(secret, chat, ask("known", bound(100)))
	w.Post(secret, chat, ask("sim-in10-report500", bound(100)))
	w.Post(secret, chat, ask("sim-nousage", bound(100)))
	w.Post(secret, chat, ask("sim-fail400", bound(100)))
	w.Post(secret, chat, ask("known", bound(100)))
	w.Post(secret, chat, ask("known", bound(100))) // the fifth that is charged
	w.Eventually("all six counted", eventually, func() bool { return w.Metrics().Sum("llmgw_requests_total") == 6 })
	w.Eventually("levels read", eventually, func() bool { return w.Metrics().Sum("llmgw_limit_remaining", "name", "rpd") == 0 })
	m := w.Metrics()
	for name, labels := range map[string][]string{
		"llmgw_requests_total":                {"team", "model", "endpoint", "status", "outcome"},
		"llmgw_tokens_total":                  {"team", "model", "kind"},
		"llmgw_settlements_estimated_total":   {"team", "model"},
		"llmgw_reserved_tokens_total":         {"team", "model"},
		"llmgw_refunded_tokens_total":         {"team", "model"},
		"llmgw_overrun_tokens_total":          {"team", "model"},
		"llmgw_reservations_open":             {},
		"llmgw_reservations_total":            {"result"},
		"llmgw_limit_remaining":               {"scope", "owner", "name", "unit", "per", "mode"},
		"llmgw_limit_amount":                  {"scope", "owner", "name", "unit", "per", "mode"},
		"llmgw_limit_capacity":                {"scope", "owner", "name", "unit", "per", "mode"},
		"llmgw_token_details_total":           {"team", "model", "kind"},
		"llmgw_provider_seconds_count":        {"provider", "model"},
		"llmgw_rejections_total":              {"scope", "limit", "code", "team", "mode"},
		"llmgw_queue_wait_seconds_count":      {"provider"},
		"llmgw_upstream_requests_total":       {"provider", "status"},
		"llmgw_upstream_remaining":            {"provider", "unit"},
		"llmgw_inflight_requests":             {},
		"llmgw_store_seconds_count":           {"op"},
		"llmgw_store_errors_total":            {"op"},
		"llmgw_store_up":                      {},
		"llmgw_config_last_reload_successful": {},
	} {
		found := slices.IndexFunc(m, func(s gatewaytest.Sample) bool { return s.Name == name })
		if found < 0 {
			t.Errorf("there is no %s", name)
			continue
		}
		slices.Sort(labels)
		if got := slices.Sorted(maps.Keys(m[found].Labels)); !slices.Equal(got, labels) {
			t.Errorf("%s: got the labels %v, want %v", name, got, labels)
		}
	}
	for _, name := range []string{
		"llmgw_estimate_ratio_count", "llmgw_estimate_seconds_count", "llmgw_overhead_seconds_count", "llmgw_time_to_first_token_seconds_count",
		"llmgw_request_seconds_count", "llmgw_build_info", "go_goroutines", "process_cpu_seconds_total",
	} {
		if m.Sum(name) == 0 {
			t.Errorf("%s is 0 or absent", name)
		}
	}
	for _, s := range []struct {
		want   float64
		name   string
		labels string // name=value, with commas
	}{
		{2, "llmgw_requests_total", "team=search,model=known,endpoint=/v1/chat/completions,status=200,outcome=completed"},
		{2, "llmgw_requests_total", "model=other,status=200,outcome=completed"},
		{1, "llmgw_requests_total", "model=other,status=400,outcome=upstream_error"},
		{1, "llmgw_requests_total", "model=known,status=429,outcome=refused"},
		{20, "llmgw_tokens_total", "team=search,model=known,kind=input"},
		{10, "llmgw_tokens_total", "team=search,model=known,kind=output"},
		{8, "llmgw_token_details_total", "team=search,model=known,kind=cached_input"},
		{4, "llmgw_token_details_total", "team=search,model=known,kind=reasoning"},
		{200, "llmgw_reserved_tokens_total", "team=search,model=known"},
		{170, "llmgw_refunded_tokens_total", "team=search,model=known"},
		{410, "llmgw_overrun_tokens_total", "team=search,model=other"},
		{1, "llmgw_settlements_estimated_total", "team=search,model=other"},
		{0, "llmgw_reservations_open", ""},
		{1, "llmgw_reservations_total", "result=refunded"},
		{4, "llmgw_reservations_total", "result=settled"},
		{1, "llmgw_rejections_total", "scope=team,limit=rpd,code=insufficient_quota,team=search,mode=enforce"},
		{60000, "llmgw_limit_amount", "scope=team,owner=search,name=tpm,unit=tokens"},
		{70000, "llmgw_limit_amount", "scope=model,owner=known,name=its,unit=tokens"},
		{2.5, "llmgw_limit_amount", "scope=gateway,owner=,name=all,unit=usd"},
		{4, "llmgw_upstream_requests_total", "provider=sim,status=200"},
		{1, "llmgw_upstream_requests_total", "provider=sim,status=400"},
		{1, "llmgw_store_up", ""},
		{1, "llmgw_config_last_reload_successful", ""},
	} {
		var labels []string
		for pair := range strings.SplitSeq(s.labels, ",") {
			if name, value, ok := strings.Cut(pair, "="); ok {
				labels = append(labels, name, value)
			}
		}
		if got := m.Sum(s.name, labels...); got != s.want {
			t.Errorf("%s{%s}: got %v, want %v", s.name, s.labels, got, s.want)
		}
	}
	w.settled()
}
