package ratelimit

import (
	"context"
	"net"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"llmgw/internal/budget"
	"llmgw/internal/budget/failover"
	"llmgw/internal/budget/memstore"
	"llmgw/internal/fleet"
)

const (
	ok   = rls.RateLimitResponse_OK
	over = rls.RateLimitResponse_OVER_LIMIT
)

// service is a client of a Service whose team a has 100 tokens an hour, and whose
// rule charges as it says.
type service struct {
	rls.RateLimitServiceClient
	conn    *grpc.ClientConn
	limiter *failover.Limiter
	limit   *budget.Limit
	charge  Charge
	shadow  bool
}

func serve(t *testing.T) *service {
	t.Helper()
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	store := memstore.New(func() time.Time { return now })
	keeper := fleet.New(fleet.Config{Store: store, Instance: "gw"})
	s := &service{limit: &budget.Limit{
		Place: "team/a", Scope: budget.Team, Owner: "a", Name: "tpm", Unit: budget.Tokens, Amount: 100, Period: budget.Hour,
		Burst: 100, Bank: 4, MaxDebt: 1000, Algorithm: budget.TokenBucket, Mode: budget.Enforce,
	}}
	s.limiter = failover.New(failover.Config{Store: store, Keeper: keeper})
	keeper.Start(s.limiter)
	t.Cleanup(func() { _ = s.limiter.Close(context.Background()) })
	rules := func() *Rules {
		return &Rules{Asked: true, Shadow: s.shadow, Limits: map[string]*budget.Limit{"team/a/tpm": s.limit}, Match: func(domain string, entries map[string]string) ([]string, Charge, bool) {
			return []string{"team/" + entries["team"] + "/tpm"}, s.charge, domain == "llm" && entries["team"] != ""
		}}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	New(s.limiter, rules).Register(server)
	go func() { _ = server.Serve(l) }() // until it is stopped
	t.Cleanup(server.Stop)
	if s.conn, err = grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close() })
	s.RateLimitServiceClient = rls.NewRateLimitServiceClient(s.conn)
	return s
}

// of is a descriptor of a team.
func of(team string) *common.RateLimitDescriptor {
	return &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: "team", Value: team}, {Key: "model", Value: "m"}}}
}

// hits is d with an amount of its own.
func hits(d *common.RateLimitDescriptor, n uint64) *common.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(n)
	return d
}

func (s *service) ask(t *testing.T, addend uint32, d ...*common.RateLimitDescriptor) *rls.RateLimitResponse {
	t.Helper()
	r, err := s.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "llm", HitsAddend: addend, Descriptors: d})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// left is what the limit has left.
func (s *service) left(t *testing.T) int64 {
	t.Helper()
	states, _, err := s.limiter.Read(t.Context(), []budget.Line{{Limit: s.limit}})
	if err != nil {
		t.Fatal(err)
	}
	return states[0].Remaining
}

func TestAmountsAreTakenChecksTakeNothingAndNegativeHitsComeBack(t *testing.T) {
	s := serve(t)
	negative := hits(of("a"), 50)
	negative.IsNegativeHits = true
	for _, step := range []struct {
		what   string
		addend uint32
		d      *common.RateLimitDescriptor
		code   rls.RateLimitResponse_Code
		left   int64
	}{
		{"no amount is 1", 0, of("a"), ok, 99},
		{"the request's amount", 9, of("a"), ok, 90},
		{"the descriptor's own amount wins", 9, hits(of("a"), 80), ok, 10},
		{"a check takes nothing", 9, hits(of("a"), 0), ok, 10},
		{"what does not fit takes nothing", 11, of("a"), over, 10},
		{"the rest", 10, of("a"), ok, 0},
		{"a check when less than 1 is left", 1, hits(of("a"), 0), over, 0},
		{"negative hits come back", 0, negative, ok, 50},
		{"a team that there is not", 1000, of("nobody"), ok, 50},
	} {
		r := s.ask(t, step.addend, step.d)
		if r.GetOverallCode() != step.code || r.GetStatuses()[0].GetCode() != step.code || s.left(t) != step.left {
			t.Errorf("%s: got %v and %d left, want %v and %d", step.what, r.GetOverallCode(), s.left(t), step.code, step.left)
		}
	}
}

func TestAnAnswerTellsLimitRemainingAndReset(t *testing.T) {
	s := serve(t)
	r := s.ask(t, 40, of("a"))
	got := r.GetStatuses()[0]
	if l := got.GetCurrentLimit(); l.GetName() != "team/a/tpm" || l.GetRequestsPerUnit() != 100 || l.GetUnit() != rls.RateLimitResponse_RateLimit_HOUR || got.GetLimitRemaining() != 60 {
		t.Errorf("got %v", got)
	}
	if d := got.GetDurationUntilReset().AsDuration(); d != 24*time.Minute {
		t.Errorf("full in %v, want 24m: 40 of 100 an hour", d)
	}
	headers := map[string]string{}
	for _, h := range r.GetResponseHeadersToAdd() {
		headers[h.GetKey()] = h.GetValue()
	}
	for name, want := range map[string]string{"ratelimit-limit": "100", "ratelimit-remaining": "60", "ratelimit-reset": "1440"} {
		if headers[name] != want {
			t.Errorf("%s: got %q, want %s", name, headers[name], want)
		}
	}
}

// Before a call all descriptors are taken or none, whichever refuses.
func TestAllDescriptorsAreTakenOrNone(t *testing.T) {
	s := serve(t)
	r := s.ask(t, 0, hits(of("a"), 60), hits(of("a"), 60))
	if r.GetOverallCode() != over || s.left(t) != 100 {
		t.Errorf("got %v and %d left, want nothing taken", r.GetOverallCode(), s.left(t))
	}
}

func TestAChargeAfterIsTakenInFull(t *testing.T) {
	s := serve(t)
	s.charge = After
	if r := s.ask(t, 250, of("a")); r.GetOverallCode() != ok || s.left(t) != -150 {
		t.Errorf("got %v and %d left, want -150", r.GetOverallCode(), s.left(t))
	}
	if r := s.ask(t, 0, hits(of("a"), 0)); r.GetOverallCode() != over {
		t.Errorf("a check of a limit in debt: got %v", r.GetOverallCode())
	}
}

func TestAShadowLimitRefusesNothing(t *testing.T) {
	s := serve(t)
	s.shadow = true
	if r := s.ask(t, 250, of("a")); r.GetOverallCode() != ok {
		t.Errorf("got %v", r)
	}
}

func TestWhatMakesNoSenseIsInvalidAndTheServiceIsHealthy(t *testing.T) {
	s := serve(t)
	for _, r := range []*rls.RateLimitRequest{{}, {Domain: "llm"}, {Descriptors: []*common.RateLimitDescriptor{of("a")}}, {Domain: "llm", Descriptors: make([]*common.RateLimitDescriptor, 100)}} {
		if _, err := s.ShouldRateLimit(t.Context(), r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: got %v", r, err)
		}
	}
	h, err := grpc_health_v1.NewHealthClient(s.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "envoy.service.ratelimit.v3.RateLimitService"})
	if err != nil || h.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health: got %v, %v", h, err)
	}
}

// Envoy AI Gateway asks twice: with 0 before the call, and with the tokens that
// were used at the stream's end.
func TestTheTwoPhasesOfEnvoyAIGateway(t *testing.T) {
	s := serve(t)
	s.charge = After
	for i, step := range []struct {
		request string
		code    rls.RateLimitResponse_Code
		left    int64
	}{
		{`{"domain":"llm","descriptors":[{"entries":[{"key":"team","value":"a"},{"key":"model","value":"gpt-4o"}],"hitsAddend":"0"}],"hitsAddend":1}`, ok, 100},
		{`{"domain":"llm","descriptors":[{"entries":[{"key":"team","value":"a"},{"key":"model","value":"gpt-4o"}],"hitsAddend":"130"}],"hitsAddend":1}`, ok, -30},
		{`{"domain":"llm","descriptors":[{"entries":[{"key":"team","value":"a"},{"key":"model","value":"gpt-4o"}],"hitsAddend":"0"}],"hitsAddend":1}`, over, -30},
		{`{"domain":"other","descriptors":[{"entries":[{"key":"team","value":"a"}],"hitsAddend":"500"}]}`, ok, -30},
	} {
		var r rls.RateLimitRequest
		if err := protojson.Unmarshal([]byte(step.request), &r); err != nil {
			t.Fatal(err)
		}
		got, err := s.ShouldRateLimit(t.Context(), &r)
		if err != nil || got.GetOverallCode() != step.code || s.left(t) != step.left {
			t.Errorf("step %d: got %v, %v and %d left, want %v and %d", i, got, err, s.left(t), step.code, step.left)
		}
	}
}
