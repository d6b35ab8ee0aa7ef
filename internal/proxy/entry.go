package proxy

import (
	"strings"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/ledger"
)

// overhead is the time that was the gateway's own: all but waiting for limits,
// for the provider's turn, and for the provider.
func (rec *record) overhead(now time.Time) time.Duration {
	total := now.Sub(rec.began) - rec.held.waited
	if rec.asked.IsZero() {
		return total
	}
	if rec.sent.IsZero() { // nothing was answered: what came after asking was not ours
		return rec.asked.Sub(rec.began) - rec.held.waited
	}
	provider := rec.last.Sub(rec.sent)
	if rec.attempts > 1 || rec.queued > 0 {
		provider = rec.last.Sub(rec.asked)
	}
	return max(0, total-provider)
}

func (rec *record) errorType() string {
	if rec.code != "" {
		return string(rec.code)
	}
	if rec.end().Outcome != charge.Completed {
		return string(rec.end().Outcome)
	}
	return ""
}

func (rec *record) entry(team, model string, now time.Time) ledger.Entry {
	e := ledger.Entry{
		Time: now, RequestID: rec.id, Team: team, Model: model, Endpoint: rec.endpoint(),
		Status: rec.status, Outcome: string(rec.end().Outcome), Code: string(rec.code), Cause: rec.cause,
		Session: cut(rec.session), Usage: rec.end().Usage, Estimated: rec.end().Estimated, LimitedBy: rec.limitedBy,
		Total: now.Sub(rec.began), Overhead: rec.overhead(now), Wait: rec.held.waited + rec.queued, TraceID: rec.span.TraceID(),
	}
	if rec.caller.Key != nil {
		e.KeyID, e.User = rec.caller.Key.ID, rec.caller.User
	}
	if s := rec.settlement; s != nil {
		e.Attempts, e.Tries = len(s.tries), s.tries
	}
	e.Degraded = rec.held.verdict.Degraded
	if rec.plan == nil {
		e.Asked = cut(rec.wanted)
	}
	if p := rec.plan; p != nil {
		e.Model = p.Call.Model
		e.Reserved = p.Reserved().Total()
		used := p.ByOperation(rec.end().Usage)
		e.MicroUSD, e.Charged = p.Model.Cost(used), p.Model.Amount(budget.Tokens, used, 0)
		e.Stream, e.EstimatedInput, e.ReservedOutput = p.Call.Stream, p.Estimate.Input, p.Estimate.Output
		if rec.admitted {
			e.Weighted = p.Model.Amount(budget.Tokens, p.Reserved(), 0)
			e.Drawn = p.drawnBy(p.Amounts(rec.end().Usage, rec.end().Requests))
		}
	}
	if rec.target.Provider != nil {
		e.Provider, e.ProviderModel = rec.target.Provider.Name, rec.modelThere()
	}
	if !rec.first.IsZero() {
		e.FirstToken = rec.first.Sub(rec.began)
	}
	return e
}

// maxLogged bounds what a client names in the log, in bytes.
const maxLogged = 128

// cut is the beginning of what a client names, as the log has it.
func cut(s string) string {
	if len(s) <= maxLogged {
		return s
	}
	return strings.ToValidUTF8(s[:maxLogged], "") + "…"
}
