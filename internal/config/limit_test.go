package config

import (
	"reflect"
	"testing"
	"time"

	"llmgw/internal/budget"
)

// bucket is a limit of 100 tokens a minute with all defaults.
func bucket(place string, scope budget.Scope, owner, tag string) budget.Limit {
	return budget.Limit{
		Place: place, Scope: scope, Owner: owner, Name: "l", Unit: budget.Tokens,
		Amount: 100, Period: budget.Minute, Burst: 100, Bank: 4, MaxDebt: 1000,
		Algorithm: budget.TokenBucket, Location: time.UTC, ResetDay: 1,
		Mode: budget.Enforce, WhenStoreDown: budget.Local, Tag: tag,
	}
}

func TestALimitIsBuiltWhole(t *testing.T) {
	athens, err := time.LoadLocation("Europe/Athens")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		what string
		text string
		want func(l *budget.Limit)
	}{
		{"a bucket", "unit: tokens, amount: 100, per: minute", func(*budget.Limit) {}},
		{"with a burst, of which the debt is ten times", "unit: tokens, amount: 100, per: minute, burst: 7", func(l *budget.Limit) { l.Burst, l.MaxDebt = 7, 70 }},
		{"with everything else", "unit: tokens, amount: 100, per: minute, bank: 1, max_debt: 5, start: empty, mode: shadow, when_store_down: closed, on_exceed: wait, max_wait: 3s, candidate: {amount: 50}",
			func(l *budget.Limit) {
				l.Bank, l.MaxDebt, l.StartEmpty, l.Mode, l.WhenStoreDown = 1, 5, true, budget.Shadow, budget.Closed
				l.Wait, l.MaxWait, l.Candidate = true, 3*time.Second, 50
			}},
		{"without debt", "unit: tokens, amount: 100, per: minute, max_debt: 0", func(l *budget.Limit) { l.MaxDebt = 0 }},
		{"a calendar budget has no bound of debt", "unit: tokens, amount: 100, per: day", func(l *budget.Limit) {
			l.Period, l.Algorithm, l.MaxDebt, l.UnboundedDebt = budget.Day, budget.CalendarUsage, 0, true
		}},
		{"unless it says so", "unit: tokens, amount: 100, per: week, max_debt: 3, reset_day: 7", func(l *budget.Limit) {
			l.Period, l.Algorithm, l.MaxDebt, l.ResetDay = budget.Week, budget.CalendarUsage, 3, 7
		}},
		{"money in a zone", "unit: usd, amount: 0.5, per: month, timezone: Europe/Athens, reset_day: 31, candidate: {amount: 0.4}", func(l *budget.Limit) {
			l.Unit, l.Amount, l.Burst, l.Candidate = budget.USD, 500_000, 500_000, 400_000
			l.Period, l.Algorithm, l.MaxDebt, l.UnboundedDebt = budget.Month, budget.CalendarUsage, 0, true
			l.Location, l.ResetDay = athens, 31
		}},
		{"money in a bucket", "unit: usd, amount: 1, per: hour, burst: 2, max_debt: 0.5", func(l *budget.Limit) {
			l.Unit, l.Amount, l.Burst, l.MaxDebt, l.Period = budget.USD, 1_000_000, 2_000_000, 500_000, budget.Hour
		}},
		{"a window", "unit: requests, amount: 100, per: second, algorithm: sliding_window", func(l *budget.Limit) {
			l.Unit, l.Period, l.Algorithm = budget.Requests, budget.Second, budget.SlidingWindow
		}},
		{"a window of a day, that rolls", "unit: requests, amount: 100, per: day, algorithm: sliding_window", func(l *budget.Limit) {
			l.Unit, l.Period, l.Algorithm = budget.Requests, budget.Day, budget.SlidingWindow
		}},
		{"a log", "unit: output_tokens, amount: 100, per: minute, algorithm: sliding_log", func(l *budget.Limit) {
			l.Unit, l.Algorithm = budget.OutputTokens, budget.SlidingLog
		}},
		{"slots", "unit: concurrency, amount: 100", func(l *budget.Limit) {
			l.Unit, l.Period, l.Algorithm, l.MaxDebt = budget.Concurrency, "", budget.Slots, 0
		}},
	} {
		t.Run(s.what, func(t *testing.T) {
			c := mustParse(t, "limits: [{name: l, "+s.text+"}]\n")
			want := bucket("gateway", budget.Gateway, "", "gateway")
			s.want(&want)
			if want.Algorithm != budget.TokenBucket {
				want.Bank = 0 // of buckets alone
			}
			if got := *c.Limits[0]; !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if err := budget.Validate(c.Limits[0]); err != nil {
				t.Errorf("the engine refuses it: %v", err)
			}
		})
	}
}

func TestALimitKnowsWhatItIsWrittenUnder(t *testing.T) {
	const l = "unit: tokens, amount: 100, per: minute"
	c := mustParse(t, `
teams:
  - limits: [{name: l, `+l+`}, {name: u, scope: user, `+l+`}, {name: m, scope: model, `+l+`}]
    keys: [{limits: [{name: l, `+l+`}, {name: i, scope: ip, `+l+`}], id: k, sha256: `+someHash("k")+`}]
    name: a
models:
  - {limits: [{name: l, `+l+`}, {name: u, scope: user, `+l+`}], name: org/m, targets: [{provider: p}]}
limits: [{name: l, `+l+`}, {name: i, scope: ip, `+l+`}, {name: m, scope: model, `+l+`}]
providers: [{name: p, dialect: openai, base_url: "http://p"}]
`)
	team := c.Teams[0]
	for _, s := range []struct {
		got               *budget.Limit
		place             string
		scope             budget.Scope
		owner, tag, named string
	}{
		{c.Limits[0], "gateway", budget.Gateway, "", "gateway", "gateway/l"},
		{c.Limits[1], "gateway", budget.IP, "", "gateway", "ip/i"},
		{c.Limits[2], "gateway", budget.Model, "", "gateway", "model//m"},
		{c.Models[0].Limits[0], "model/org/m", budget.Model, "org/m", "model/org/m", "model/org/m/l"},
		{c.Models[0].Limits[1], "model/org/m", budget.User, "org/m", "model/org/m", "user/u"},
		{team.Limits[0], "team/a", budget.Team, "a", "a", "team/a/l"},
		{team.Limits[1], "team/a", budget.User, "a", "a", "user/u"},
		{team.Limits[2], "team/a", budget.Model, "a", "a", "model/a/m"},
		{team.Keys[0].Limits[0], "key/k", budget.Key, "k", "a", "key/k/l"},
		{team.Keys[0].Limits[1], "key/k", budget.IP, "k", "a", "ip/i"},
	} {
		want := bucket(s.place, s.scope, s.owner, s.tag)
		want.Name = s.got.Name
		if !reflect.DeepEqual(*s.got, want) {
			t.Errorf("got  %+v\nwant %+v", *s.got, want)
		}
		if got := s.got.By(); got != s.named {
			t.Errorf("got the name %q, want %q", got, s.named)
		}
	}
}
