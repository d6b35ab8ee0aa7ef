package charge

import (
	"slices"
	"testing"

	"llmgw/internal/budget"
	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
	"llmgw/internal/tenant"
	"llmgw/internal/tokens"
)

// limit is a limit of a scope and unit that refuses nothing here.
func limit(scope budget.Scope, unit budget.Unit) *budget.Limit {
	return &budget.Limit{Place: string(scope), Scope: scope, Owner: "o", Name: string(unit), Unit: unit, Amount: 1_000_000, Burst: 1_000_000, Algorithm: budget.TokenBucket}
}

// drawing is a plan of a call for 10 tokens of input and at most 90 of output, by a
// key with limits of every unit, a team, a model and a gateway with one of each
// scope that has several counters.
func drawing() (p *Plan, gateway []*budget.Limit) {
	gateway = []*budget.Limit{limit(budget.User, budget.Tokens), limit(budget.IP, budget.Requests), limit(budget.Model, budget.Tokens)}
	key := &tenant.Key{ID: "k", Limits: []*budget.Limit{
		limit(budget.Key, budget.Tokens), limit(budget.Key, budget.InputTokens), limit(budget.Key, budget.OutputTokens),
		limit(budget.Key, budget.Requests), limit(budget.Key, budget.USD), limit(budget.Key, budget.Concurrency),
	}}
	team := &tenant.Team{Name: "t"}
	return &Plan{
		Caller: Caller{Caller: tenant.Caller{Key: key, User: "ann"}, Team: team, Counter: "10.0.0.1"},
		Call:   &dialect.Call{}, Model: &Model{Name: "m", Weights: tokens.Even},
		Estimate: estimate.Estimate{Input: 10, Output: 90}, Requests: 1,
	}, gateway
}

// drawn lists the counters and amounts of lines.
func drawn(lines []budget.Line) (values []string, amounts []int64) {
	for _, l := range lines {
		values, amounts = append(values, l.Value), append(amounts, l.Amount)
	}
	return values, amounts
}

func TestACallDrawsOnEveryLimitOfItsCallerAndModel(t *testing.T) {
	for _, s := range []struct {
		what    string
		change  func(*Plan)
		values  []string
		amounts []int64
	}{
		{"a call", func(*Plan) {}, []string{"ann", "10.0.0.1", "m", "", "", "", "", "", ""}, []int64{100, 1, 100, 100, 10, 90, 1, 0, 1}},
		{"one that names no user", func(p *Plan) { p.Caller.User = "" }, []string{"anonymous", "10.0.0.1", "m", "", "", "", "", "", ""}, []int64{100, 1, 100, 100, 10, 90, 1, 0, 1}},
		{"one that uses nothing", func(p *Plan) { p.Call.RequestsOnly = true }, []string{"10.0.0.1", ""}, []int64{1, 1}},
		{"a flat charge has no price", func(p *Plan) { p.Flat = true }, []string{"ann", "10.0.0.1", "m", "", "", "", "", ""}, []int64{100, 1, 100, 100, 10, 90, 1, 1}},
		{"amounts that were asked for", func(p *Plan) { p.Asked = map[budget.Unit]int64{budget.Tokens: 7, budget.USD: 3} }, []string{"ann", "10.0.0.1", "m", "", "", "", "", "", ""}, []int64{7, 1, 7, 7, 10, 90, 1, 3, 1}},
	} {
		p, gateway := drawing()
		s.change(p)
		if values, amounts := drawn(p.Draws(gateway)); !slices.Equal(values, s.values) || !slices.Equal(amounts, s.amounts) {
			t.Errorf("%s: draws %d from %q, want %d from %q", s.what, amounts, values, s.amounts, s.values)
		}
	}
}

func TestWhatACallUsedCountsInTheUnitOfEachLine(t *testing.T) {
	p, gateway := drawing()
	p.Lines = p.Draws(gateway)
	got := p.Amounts(tokens.Usage{Input: 8, Output: 2}, 1)
	if want := []int64{10, 1, 10, 10, 8, 2, 1, 0, 0}; !slices.Equal(got, want) { // a slot comes back
		t.Errorf("counts %d, want %d", got, want)
	}
	if got, want := p.LimitedBy(p.Lines[2]), "model/m/tokens"; got != want {
		t.Errorf("a limit of each model is called %q, want %q", got, want)
	}
	if got, want := p.LimitedBy(p.Lines[3]), "key/o/tokens"; got != want {
		t.Errorf("a key's limit is called %q, want %q", got, want)
	}
}

func TestAnEndingCostsWhatIsKnownOfIt(t *testing.T) {
	seen := tokens.Usage{Input: 12, Output: 3}
	for _, s := range []struct {
		what string
		end  func(*Plan) Ending
		want Ending
	}{
		{"refused", func(*Plan) Ending { return Refund(Refused) }, Ending{Outcome: Refused}},
		{"completed", func(p *Plan) Ending {
			return p.Metered(Completed, 200, dialect.Report{Usage: seen, InputKnown: true, OutputKnown: true, Complete: true})
		}, Ending{Outcome: Completed, Usage: seen, Requests: 1}},
		{"completed with an error", func(p *Plan) Ending { return p.Metered(Completed, 500, dialect.Report{}) }, Ending{Outcome: UpstreamError}},
		{"left before the answer", func(p *Plan) Ending { return p.LeftEarly(0, ClientGone) },
			Ending{Outcome: ClientGone, Usage: tokens.Usage{Input: 10}, Estimated: true, Requests: 1}},
		{"left with a part", func(p *Plan) Ending {
			return p.Metered(ClientGone, 200, dialect.Report{Stream: true, Content: true, Counted: 4})
		},
			Ending{Outcome: ClientGone, Usage: tokens.Usage{Input: 10, Output: 4}, Estimated: true, Requests: 1}},
		{"charged whole", func(p *Plan) Ending { return p.WholeReserve(ClientGone) },
			Ending{Outcome: ClientGone, Usage: tokens.Usage{Input: 10, Output: 90}, Estimated: true, Requests: 1}},
		{"a flat charge", func(p *Plan) Ending { p.Flat = true; return p.Metered(Completed, 200, dialect.Report{}) },
			Ending{Outcome: Completed, Usage: tokens.Usage{Input: 10, Output: 90}, Requests: 1}},
		{"a call that uses nothing", func(p *Plan) Ending { p.Call.RequestsOnly = true; return p.LeftEarly(0, ClientGone) },
			Ending{Outcome: ClientGone, Estimated: true, Requests: 1}},
	} {
		p, _ := drawing()
		if got := s.end(p); got != s.want {
			t.Errorf("%s: got %+v, want %+v", s.what, got, s.want)
		}
	}
}

func TestACallerWithoutAKeyHasNoNames(t *testing.T) {
	if c := (Caller{}); c.KeyID() != "" || c.TeamName() != "" {
		t.Errorf("got key %q of team %q", c.KeyID(), c.TeamName())
	}
	p, _ := drawing()
	if c := p.Caller; c.KeyID() != "k" || c.TeamName() != "t" || c.Name() != "k\x00ann\x0010.0.0.1" {
		t.Errorf("got key %q of team %q, called %q", c.KeyID(), c.TeamName(), c.Name())
	}
}
