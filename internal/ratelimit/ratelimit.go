// Package ratelimit is Envoy's rate limit service, version 3, over gRPC: what
// proxies ask is counted in the gateway's own limits. The configuration maps
// descriptors to limits.
//
// It knows no key and no HTTP, and decides nothing: a Limiter does. ratelimit.go
// is the service, ask.go what one request asks, answer.go its answer.
package ratelimit

import (
	"context"
	"crypto/rand"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"llmgw/internal/budget"
)

// Limiter is what the service asks.
type Limiter interface {
	budget.Limiter
	// Return gives back what each line's counter has used, by the line's amount.
	Return(ctx context.Context, lines []budget.Line) error
}

// Charge says when an amount is charged.
type Charge int

// The charges: before a call, all of a request's amounts or none; and after it,
// each in full, into debt.
const (
	Before Charge = iota
	After
)

// Rules are what descriptors mean. They are never changed.
type Rules struct {
	// Match returns the names of the limits that a descriptor counts in, by its
	// entries; false if no rule is its.
	Match func(domain string, entries map[string]string) (limits []string, charge Charge, ok bool)
	// Limits are those that there are, by the names that X-LLMGW-Limited-By has.
	Limits map[string]*budget.Limit
	// Asked reports whether limits are asked at all, and Shadow whether none refuses.
	Asked, Shadow bool
}

// Service answers ShouldRateLimit.
type Service struct {
	rls.UnimplementedRateLimitServiceServer
	limiter Limiter
	rules   func() *Rules
}

// New returns a Service that follows what rules returns at each request.
func New(limiter Limiter, rules func() *Rules) *Service {
	return &Service{limiter: limiter, rules: rules}
}

// Register adds the service, and the health of it, to a server.
func (s *Service) Register(to *grpc.Server) {
	rls.RegisterRateLimitServiceServer(to, s)
	healthy := health.NewServer()
	healthy.SetServingStatus(rls.RateLimitService_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(to, healthy)
}

// mostDescriptors bounds a request.
const mostDescriptors = 64

// ShouldRateLimit answers one request. What is charged before is taken for all
// descriptors or for none.
func (s *Service) ShouldRateLimit(ctx context.Context, r *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	if r.GetDomain() == "" {
		return nil, status.Error(codes.InvalidArgument, "the domain is empty")
	}
	if n := len(r.GetDescriptors()); n == 0 || n > mostDescriptors {
		return nil, status.Errorf(codes.InvalidArgument, "there are %d descriptors: 1 to %d are allowed", n, mostDescriptors)
	}
	rules := s.rules()
	a := read(rules, r)
	if !rules.Asked {
		return a.response(), nil
	}
	if len(a.back) > 0 {
		if err := s.limiter.Return(ctx, a.back); err != nil {
			return nil, status.Error(codes.Unavailable, "the store of limits cannot be asked")
		}
	}
	if len(a.after) > 0 {
		s.take(ctx, rules, a, a.after, true)
	}
	if len(a.before) > 0 {
		s.take(ctx, rules, a, a.before, false)
	}
	return a.response(), nil
}

// take charges what some lines of a ask for, and notes the verdict.
func (s *Service) take(ctx context.Context, rules *Rules, a *ask, which []int, after bool) {
	q := budget.Request{ID: "rls-" + rand.Text(), Shadow: rules.Shadow, Force: after}
	for _, i := range which {
		q.Lines = append(q.Lines, a.lines[i].line)
	}
	held, v := s.limiter.Reserve(ctx, q)
	if held != nil {
		used := make([]int64, len(q.Lines))
		for i, l := range q.Lines {
			used[i] = l.Amount
			if a.lines[which[i]].check {
				used[i] = 0 // a look at whether 1 is left
			}
		}
		held.Settle(used)
	}
	for i, at := range which {
		if i < len(v.Lines) {
			a.lines[at].state, a.lines[at].known = v.Lines[i], true
		}
		a.lines[at].after, a.lines[at].shadow = after, rules.Shadow
	}
}
