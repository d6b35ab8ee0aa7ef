package ratelimit

import (
	"math"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"llmgw/internal/budget"
)

// over reports whether the limit refuses.
func (l *line) over() bool {
	return l.known && !l.after && !l.shadow && l.line.Limit.Mode != budget.Shadow && l.state.Outcome != budget.Granted
}

// left is what the limit has left, not less than 0. A check is not counted.
func (l *line) left() int64 {
	n := l.state.Remaining
	if l.check && !l.over() {
		n++
	}
	return max(0, n)
}

// reset is when the limit has room again: for what was refused, else for all.
func (l *line) reset() time.Duration {
	if l.over() && l.state.Wait > 0 {
		return l.state.Wait
	}
	return l.state.Reset
}

// response is the answer: of each descriptor its tightest limit, and in the
// headers the tightest of all.
func (a *ask) response() *rls.RateLimitResponse {
	r := &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}
	var worst *line
	for i := range a.descriptors {
		s := &rls.RateLimitResponse_DescriptorStatus{Code: rls.RateLimitResponse_OK}
		if l := a.tightest(i); l != nil {
			l.describe(s)
			if s.Code == rls.RateLimitResponse_OVER_LIMIT {
				r.OverallCode = s.Code
			}
			if worst == nil || l.tighter(worst) {
				worst = l
			}
		}
		r.Statuses = append(r.Statuses, s)
	}
	if worst != nil {
		r.ResponseHeadersToAdd = worst.headers()
	}
	return r
}

// tightest is the line of a descriptor that refuses, or has the least left; nil if
// none is known.
func (a *ask) tightest(descriptor int) (tightest *line) {
	for i := range a.lines {
		if l := &a.lines[i]; l.descriptor == descriptor && l.known && (tightest == nil || l.tighter(tightest)) {
			tightest = l
		}
	}
	return tightest
}

func (l *line) tighter(than *line) bool {
	if l.over() != than.over() {
		return l.over()
	}
	return l.left() < than.left()
}

// units are the periods that the protocol knows.
var units = map[budget.Period]rls.RateLimitResponse_RateLimit_Unit{
	budget.Second: rls.RateLimitResponse_RateLimit_SECOND, budget.Minute: rls.RateLimitResponse_RateLimit_MINUTE,
	budget.Hour: rls.RateLimitResponse_RateLimit_HOUR, budget.Day: rls.RateLimitResponse_RateLimit_DAY,
	budget.Week: rls.RateLimitResponse_RateLimit_WEEK, budget.Month: rls.RateLimitResponse_RateLimit_MONTH,
}

// describe fills in how a descriptor's limit stands.
func (l *line) describe(s *rls.RateLimitResponse_DescriptorStatus) {
	if l.over() {
		s.Code = rls.RateLimitResponse_OVER_LIMIT
	}
	limit := l.line.Limit.InForce(l.state)
	s.CurrentLimit = &rls.RateLimitResponse_RateLimit{Name: limit.By(), RequestsPerUnit: small(limit.Amount), Unit: units[limit.Period]}
	s.LimitRemaining = small(l.left())
	s.DurationUntilReset = durationpb.New(l.reset())
}

// headers are those that the client may see.
func (l *line) headers() []*core.HeaderValue {
	limit := l.line.Limit.InForce(l.state)
	seconds := int64((l.reset() + time.Second - 1) / time.Second)
	all := []*core.HeaderValue{
		{Key: "ratelimit-limit", Value: strconv.FormatInt(limit.Amount, 10)},
		{Key: "ratelimit-remaining", Value: strconv.FormatInt(l.left(), 10)},
		{Key: "ratelimit-reset", Value: strconv.FormatInt(seconds, 10)},
	}
	if l.over() {
		all = append(all, &core.HeaderValue{Key: "x-llmgw-limited-by", Value: limit.By()})
	}
	return all
}

// small is n as the protocol has it.
func small(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }
