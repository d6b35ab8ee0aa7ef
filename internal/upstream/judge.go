package upstream

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"llmgw/internal/dialect"
)

// width is how much of a provider an answer speaks about.
type width int

const (
	modelOfKey width = iota // the model, asked with this credential
	wholeKey                // whatever is asked with this credential
	wholeModel              // the model, whatever the credential
)

// scope is that part of a provider, for an attempt with key at model.
func (w width) scope(key, model string) scope {
	switch w {
	case wholeKey:
		return scope{key: key}
	case wholeModel:
		return scope{model: model}
	default:
		return scope{key, model}
	}
}

// judgement is what an answer says: what may follow, and what rests from now on.
type judgement struct {
	again again
	// after is how long the provider asks to wait, 0 if it does not say.
	after time.Duration
	rests cause // empty: nothing
	width width // of what rests
	rate  bool  // it refuses for a rate
}

// judge reads an answer of status, e being the start of its body.
func judge(status int, e errorBody, h http.Header, now time.Time) judgement {
	if j, ok := e.ofCredential(status, h); ok {
		return j
	}
	switch status {
	case http.StatusNotFound:
		return judgement{again: elsewhere}
	case http.StatusTooManyRequests:
		if e.tooLarge() {
			return judgement{again: elsewhere}
		}
		return e.limits(unlessDenied(h), e.wait(h, now))
	case http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout, 529:
		j := judgement{again: unlessDenied(h), after: RetryAfter(h, now), width: wholeModel}
		if j.after > 0 {
			j.rests = limited
		}
		return j
	}
	if e.lacks() {
		return judgement{again: elsewhere}
	}
	return judgement{again: never}
}

// limits is the judgement of a refusal for a rate: it holds for the model alone,
// unless the provider says that it holds for more.
func (e errorBody) limits(a again, after time.Duration) judgement {
	j := judgement{again: a, after: after, rate: true}
	if after > 0 {
		j.rests = limited
	}
	if e.wide() {
		j.width = wholeKey
	}
	return j
}

// wide reports whether a rate's limit is one of all models: Google names a quota
// that has no model, Anthropic the growth of an organization's use.
func (e errorBody) wide() bool {
	named, ofModel := false, false
	for _, d := range e.details {
		if d.ErrorCode == "ramp_limit_exceeded" {
			return true
		}
		for _, v := range d.Violations {
			named, ofModel = named || v.QuotaID != "", ofModel || strings.Contains(v.QuotaID, "Model")
		}
	}
	return named && !ofModel || strings.Contains(e.message, "all models")
}

// ofCredential is the judgement of an answer that is about the gateway's
// credential and not about the request: its secret, its organization, its money or
// what it may use. It reports whether the answer is one.
func (e errorBody) ofCredential(status int, h http.Header) (judgement, bool) {
	kind, _, _ := strings.Cut(h.Get("X-Amzn-Errortype"), ":")
	named := func(names []string) bool {
		return slices.Contains(names, e.code) || slices.Contains(names, e.kind) || slices.Contains(names, kind) ||
			slices.ContainsFunc(e.details, func(d detail) bool { return slices.Contains(names, d.Reason) || slices.Contains(names, d.ErrorCode) })
	}
	j := judgement{again: otherKey, width: wholeKey}
	switch {
	case status < 400 || status >= 500:
		return judgement{}, false
	case e.perDay():
		j.rests, j.width = spent, modelOfKey
	case named(signals.Spent) || dialect.AnyIn(signals.SpentPhrases, e.message):
		j.rests = spent
	case status == http.StatusPaymentRequired:
		if !strings.Contains(e.message, "can only afford") { // a smaller request would be served
			j.rests = spent
		}
	case named(signals.Refused) || dialect.AnyIn(signals.RefusedPhrases, e.message):
		j.rests = refused
	case status == http.StatusUnauthorized || status == 498: // Cohere's
		j.rests = refused
		if strings.Contains(e.message, "insufficient permissions") || strings.Contains(e.message, "Missing scopes") {
			j.rests, j.width = denied, modelOfKey
		}
	case status == http.StatusForbidden && !e.moderated:
		j.rests, j.width = denied, modelOfKey
	default:
		return judgement{}, false
	}
	return j, true
}

// perDay reports whether a day's quota of a model is used up. What Google asks to
// wait for then is not when the day ends.
func (e errorBody) perDay() bool {
	return dialect.AnyIn(signals.DailyPhrases, e.message) ||
		slices.ContainsFunc(e.details, func(d detail) bool {
			for _, v := range d.Violations {
				if strings.Contains(v.QuotaID, "PerDay") {
					return true
				}
			}
			return false
		})
}
