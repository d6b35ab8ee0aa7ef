package alerts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"llmgw/internal/budget"
)

// look returns the alerts that r raises now, also those that it raised before.
func (a *Alerts) look(ctx context.Context, r Rule) ([]Alert, error) {
	switch r.On {
	case Budget:
		return a.budgets(ctx, r, a.atThresholds)
	case Forecast:
		return a.budgets(ctx, r, a.atForecast)
	case Refusals:
		return a.refusals(ctx, r)
	case ProviderDown:
		return a.downs(r), nil
	case KeyExpires:
		return a.expiries(r), nil
	default:
		return nil, nil
	}
}

// matches reports whether the rule is about the limit that is called by.
func (r Rule) matches(by string) bool {
	return r.Limits == nil || slices.ContainsFunc(r.Limits, func(pattern string) bool {
		ok, err := path.Match(pattern, by)
		return err == nil && ok
	})
}

// spent is what was charged to a budget in its period.
type spent struct {
	limit        *budget.Limit
	used, amount int64
	start, end   time.Time // of the period
	at           time.Time // the store's time
}

// readAtOnce bounds how many counters one reading has: requests wait meanwhile.
const readAtOnce = 500

// budgets judges every calendar budget that r is about.
func (a *Alerts) budgets(ctx context.Context, r Rule, judge func(Rule, spent) []Alert) ([]Alert, error) {
	var lines []budget.Line
	for _, l := range a.config.Sources.Limits() {
		if l.Algorithm == budget.CalendarUsage && r.matches(l.By()) {
			lines = append(lines, budget.Line{Limit: l})
		}
	}
	var raised []Alert
	for part := range slices.Chunk(lines, readAtOnce) {
		states, at, err := a.config.Sources.Read(ctx, part)
		if err != nil {
			return nil, err
		}
		for i, s := range states {
			l := part[i].Limit
			start, end := budget.PeriodAt(l, at)
			raised = append(raised, judge(r, spent{l, s.Capacity - s.Remaining - s.Open, s.Capacity, start, end, at})...)
		}
	}
	return raised, nil
}

// atThresholds raises an alert for each threshold that was reached.
func (a *Alerts) atThresholds(r Rule, s spent) []Alert {
	var raised []Alert
	for _, percent := range r.At {
		if product(s.used, 100).Cmp(product(s.amount, percent)) >= 0 {
			raised = append(raised, a.ofBudget(r, s, percent, fmt.Sprintf("%s has reached %d %% of its budget", s.limit.By(), percent)))
		}
	}
	return raised
}

func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// tooEarly is the part of a period, in percent, that must be over before a forecast
// is worth an alert.
const tooEarly = 5

// atForecast raises an alert if the budget will be spent before its period ends,
// should it go on at the average rate of the period so far.
func (a *Alerts) atForecast(r Rule, s spent) []Alert {
	elapsed, whole := s.at.Sub(s.start), s.end.Sub(s.start)
	if s.used <= 0 || elapsed*100 < whole*tooEarly || s.used >= s.amount {
		return nil
	}
	// used ÷ elapsed × whole > amount
	if product(s.used, int64(whole/time.Second)).Cmp(product(s.amount, int64(elapsed/time.Second))) <= 0 {
		return nil
	}
	left := time.Duration(float64(elapsed) * float64(s.amount-s.used) / float64(s.used))
	return []Alert{a.ofBudget(r, s, 100, fmt.Sprintf("%s will be spent about %s, before its period ends on %s",
		s.limit.By(), s.at.Add(left).In(s.limit.Location).Format("2 January, 15:04 MST"), s.end.Format("2 January, 15:04 MST")))}
}

func (a *Alerts) ofBudget(r Rule, s spent, threshold int64, what string) Alert {
	u := s.limit.Unit
	return a.alert(Alert{
		Rule: r.Name, On: r.On, Limit: s.limit.By(), PeriodStart: s.start, Threshold: threshold,
		Used: numberOf(u, s.used), Amount: numberOf(u, s.amount), Unit: string(u),
		Text:   fmt.Sprintf("%s: %s of %s used.", what, amountText(u, s.used), amountText(u, s.amount)),
		forget: s.end.Add(forgetAfter),
	})
}

func amountText(u budget.Unit, n int64) string {
	if u == budget.USD {
		return u.Text(max(n, 0))
	}
	return u.Text(max(n, 0)) + " " + strings.ReplaceAll(string(u), "_", " ")
}

// forgetAfter is how long an alert is remembered after it can be raised no more: the
// clocks of gateways may differ.
const forgetAfter = 48 * time.Hour

// refusals raises an alert for each limit that refused more than r.Above requests
// within r.Within, once in each such time.
func (a *Alerts) refusals(ctx context.Context, r Rule) ([]Alert, error) {
	minutes := int((r.Within + time.Minute - 1) / time.Minute)
	counts, err := a.config.Sources.Refused(ctx, minutes)
	if err != nil {
		return nil, err
	}
	var raised []Alert
	for by, n := range counts {
		if n <= r.Above || !r.matches(by) {
			continue
		}
		start := a.config.Now().UTC().Truncate(r.Within)
		raised = append(raised, a.alert(Alert{
			Rule: r.Name, On: r.On, Limit: by, PeriodStart: start, Threshold: r.Above,
			Used: numberOf(budget.Requests, n), Amount: numberOf(budget.Requests, r.Above), Unit: string(budget.Requests),
			Text:   fmt.Sprintf("%s has refused %d requests within %s.", by, n, r.Within),
			forget: start.Add(r.Within + forgetAfter),
		}))
	}
	return raised, nil
}

// outagesApart is how long a provider must be up between two outages that are told
// apart: gateways do not see them at the same moment.
const outagesApart = 10 * time.Minute

// downs raises an alert for each provider that was down for r.For.
func (a *Alerts) downs(r Rule) []Alert {
	now := a.config.Now().UTC()
	down := a.config.Sources.Down()
	for p := range a.down {
		if !slices.Contains(down, p) {
			delete(a.down, p)
		}
	}
	var raised []Alert
	for _, p := range down {
		if a.down[p].IsZero() {
			a.down[p] = now
		}
		since := a.down[p]
		if now.Sub(since) < r.For {
			continue
		}
		start := since.Truncate(outagesApart)
		raised = append(raised, a.alert(Alert{
			Rule: r.Name, On: r.On, Limit: "provider/" + p, PeriodStart: start, Threshold: int64(r.For / time.Second), Unit: "seconds",
			Used: Number(strconv.FormatInt(int64(now.Sub(since)/time.Second), 10)), Amount: Number(strconv.FormatInt(int64(r.For/time.Second), 10)),
			Text: fmt.Sprintf("The provider %s has been down since %s.", p, since.Format("15:04:05 MST")), forget: start.Add(forgetAfter),
		}))
	}
	return raised
}

// expiries raises an alert for each key that expires within r.Before.
func (a *Alerts) expiries(r Rule) []Alert {
	now := a.config.Now().UTC()
	var raised []Alert
	for id, at := range a.config.Sources.Expiring() {
		if left := at.Sub(now); left <= 0 || left > r.Before {
			continue
		}
		raised = append(raised, a.alert(Alert{
			Rule: r.Name, On: r.On, Limit: "key/" + id, PeriodStart: at.UTC(), Threshold: int64(r.Before / time.Second), Unit: "seconds",
			Used: Number(strconv.FormatInt(int64(at.Sub(now)/time.Second), 10)), Amount: Number(strconv.FormatInt(int64(r.Before/time.Second), 10)),
			Text: fmt.Sprintf("The key %s expires on %s.", id, at.UTC().Format("2 January 2006, 15:04 MST")), forget: at.Add(forgetAfter),
		}))
	}
	return raised
}

// alert gives an alert its time, and the id that it has at every gateway.
func (a *Alerts) alert(of Alert) Alert {
	of.Time = a.config.Now().UTC().Truncate(time.Millisecond)
	of.PeriodStart = of.PeriodStart.UTC()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d\x00%d", of.Rule, of.On, of.Limit, of.PeriodStart.UnixMilli(), of.Threshold))
	of.ID = "alr_" + hex.EncodeToString(sum[:12])
	return of
}
