package app

import (
	"context"
	"time"

	"llmgw/internal/admin"
	"llmgw/internal/books"
	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/tenant"
	"llmgw/internal/tokens"
)

// me is what an app may know of its key: what it may use, what is left of each
// limit that it draws on, and what its team has used.
func (a *App) me(ctx context.Context, key *tenant.Key, models []*charge.Model) (any, error) {
	type model struct {
		Name   string         `json:"name"`
		Prices *tokens.Prices `json:"prices"` // null: none are known
	}
	answer := struct {
		Team   string         `json:"team"`
		KeyID  string         `json:"key_id"`
		Models []model        `json:"models"`
		Limits any            `json:"limits"`
		Usage  map[string]any `json:"usage"`
	}{Team: key.Team.Name, KeyID: key.ID, Models: []model{}}
	for _, m := range models {
		answer.Models = append(answer.Models, model{m.Name, m.Prices})
	}
	limits := append([]*budget.Limit(nil), key.Team.Limits...)
	limits = append(limits, key.Limits...)
	for _, l := range a.commonLimits() {
		if l.Scope != budget.Model || key.Allows(l.Owner) {
			limits = append(limits, l)
		}
	}
	var err error
	if answer.Limits, err = admin.Limits(ctx, a.adminConfig(), limits); err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	answer.Usage = map[string]any{}
	for name, from := range map[string]time.Time{"today": day, "month": month} {
		if answer.Usage[name], err = a.usageOf(ctx, key.Team.Name, from, now); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// usageOf is what a team used in [from, to).
func (a *App) usageOf(ctx context.Context, team string, from, to time.Time) (any, error) {
	sum := struct {
		From         time.Time     `json:"from"`
		Requests     int64         `json:"requests"`
		Input        int64         `json:"input_tokens"`
		CachedInput  int64         `json:"cached_input_tokens"`
		Output       int64         `json:"output_tokens"`
		Reasoning    int64         `json:"reasoning_tokens"`
		MicroDollars books.Dollars `json:"usd"`
	}{From: from}
	rows, err := a.books.Usage(ctx, books.Query{From: from, To: to, Where: map[string][]string{"team": {team}}})
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		sum.Requests, sum.Input, sum.CachedInput = r.Requests, r.Input, r.CachedInput
		sum.Output, sum.Reasoning, sum.MicroDollars = r.Output, r.Reasoning, r.USD
	}
	return sum, nil
}
