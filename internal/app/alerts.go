package app

import (
	"context"
	"slices"
	"time"

	"llmgw/internal/alerts"
	"llmgw/internal/budget"
)

// newAlerts are the alerts of the configuration in force.
func (a *App) newAlerts() *alerts.Alerts {
	var store alerts.Store = a.backing.shared
	if a.inDatabase(a.config.Load()) {
		store = alerts.NewSQL(a.database)
	}
	return alerts.New(alerts.Config{
		Store: store, Instance: string(a.keeper.Epoch()), Rules: a.alertRules, Tried: a.metrics.AlertTried, Logger: a.log,
		Sources: alerts.Sources{
			Limits: func() []*budget.Limit { return limitsOf(a.config.Load()) }, Read: a.read,
			Refused: a.refused, Down: a.down, Expiring: a.expiring,
		},
	})
}

func (a *App) alertRules() ([]alerts.Rule, []alerts.Receiver) {
	c := a.config.Load().Alerts
	rules := make([]alerts.Rule, len(c.Rules))
	for i, r := range c.Rules {
		rules[i] = alerts.Rule{
			Name: r.Name, On: alerts.Kind(r.On), Limits: r.Limits, At: r.At, Above: r.Above, Within: r.Within, For: r.For, Before: r.Before, To: r.To,
		}
	}
	receivers := make([]alerts.Receiver, len(c.Receivers))
	for i, r := range c.Receivers {
		receivers[i] = alerts.Receiver{Name: r.Name, URL: r.URL, Format: alerts.Format(r.Format), Secret: r.Secret, AllowPrivate: r.AllowPrivate}
	}
	return rules, receivers
}

// refused is how often each limit refused at all gateways in the last minutes.
func (a *App) refused(ctx context.Context, minutes int) (map[string]int64, error) {
	series, err := a.books.Series(ctx)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int64, len(series.Refusals))
	for _, r := range series.Refusals {
		for _, n := range r.Count[max(0, len(r.Count)-minutes):] {
			counts[r.Limit] += n
		}
	}
	return counts, nil
}

// down are the providers whose calls fail, or that refuse all keys.
func (a *App) down() []string {
	var names []string
	for _, p := range a.client.Live() {
		if slices.Contains([]string{"broken", "refused"}, p.State) {
			names = append(names, p.Name)
		}
	}
	return names
}

// expiring are the keys that have an end, and when it is.
func (a *App) expiring() map[string]time.Time {
	ends := map[string]time.Time{}
	for _, k := range a.changes.State().Keys() {
		if k.ExpiresAt != nil {
			ends[k.ID] = *k.ExpiresAt
		}
	}
	return ends
}
