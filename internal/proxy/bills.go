package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/ledger"
	"llmgw/internal/tenant"
	"llmgw/internal/tokens"
)

// Shared is a store of small maps that all gateways have in common, as
// shared.Memory and shared.Redis are.
type Shared interface {
	Fields(ctx context.Context, name string) (map[string]string, error)
	Set(ctx context.Context, name, field, value string) error
	SetFor(ctx context.Context, name string, fields map[string]string, ttl time.Duration) error
	SetOnce(ctx context.Context, name, field, value string) (string, error)
	AddOnce(ctx context.Context, name, writer string, batch int64, deltas map[string]int64, ttl time.Duration) error
}

// bills remembers what responses that went on in the background were charged, so
// that any gateway that later sees one's usage debits the difference. It never
// blocks: its work is done beside the calls.
//
//	left open ─► charged: what was reserved ─► its end is seen: what it used
//	                                       └─► its end is seen later, anywhere: the rest is debited
type bills struct {
	gateway *Gateway
	work    sync.WaitGroup
	mu      sync.Mutex
	seen    map[string]bool // responses whose end this gateway has booked, up to maxUnfinished
}

const (
	// billKept is how long a response's end may be seen: providers keep
	// background responses for less.
	billKept = 48 * time.Hour
	// billTimeout bounds each piece of work.
	billTimeout = 5 * time.Second
)

// The fields of what is kept of a response.
const (
	billOf     = "of"
	billInput  = "input"
	billOutput = "output"
)

// debtor is whose response it is.
type debtor struct {
	KeyID, User, IP, Model, Endpoint string
}

func billName(id string) string { return "background/" + id }

// charged notes that the response id was charged so much more than before, or
// less: it belongs to rec's caller.
func (b *bills) charged(id, step string, rec *record, u tokens.Usage) {
	p := rec.plan
	of, _ := json.Marshal(debtor{p.Caller.Key.ID, p.Caller.User, p.Caller.Counter, p.Call.Model, rec.endpoint()}) // strings
	b.do(func(ctx context.Context) error {
		if err := b.gateway.Shared.Set(ctx, billName(id), billOf, string(of)); err != nil {
			return fmt.Errorf("note what response %s was charged: %w", id, err)
		}
		return b.add(ctx, id, step, u)
	})
}

// add adds to what the response id was charged, once for each step.
func (b *bills) add(ctx context.Context, id, step string, u tokens.Usage) error {
	deltas := map[string]int64{billInput: int64(u.Input), billOutput: int64(u.Output)}
	if err := b.gateway.Shared.AddOnce(ctx, billName(id), step, 1, deltas, billKept); err != nil {
		return fmt.Errorf("note what response %s was charged: %w", id, err)
	}
	return nil
}

// saw debits what the response id has used beyond what it was charged, if it is
// one that a gateway has left.
func (b *bills) saw(id string, r dialect.Report) {
	if !r.OutputKnown || !r.InputKnown {
		return
	}
	b.mu.Lock()
	known := b.seen[id]
	if len(b.seen) >= maxUnfinished {
		clear(b.seen)
	}
	b.seen[id] = true
	b.mu.Unlock()
	if !known {
		b.do(func(ctx context.Context) error { return b.debit(ctx, id, r) })
	}
}

func (b *bills) debit(ctx context.Context, id string, r dialect.Report) error {
	kept, err := b.gateway.Shared.Fields(ctx, billName(id))
	var of debtor
	if err != nil || json.Unmarshal([]byte(kept[billOf]), &of) != nil {
		return err // of a response that none of us has left
	}
	rest := tokens.Usage{Input: max(0, r.Usage.Input-count(kept[billInput])), Output: max(0, r.Usage.Output-count(kept[billOutput]))}
	if rest.Total() == 0 {
		return nil
	}
	if err := b.add(ctx, id, "seen", rest); err != nil {
		return err
	}
	return b.book(ctx, id, of, rest, r)
}

// count is a number of tokens as it is kept.
func count(text string) tokens.Count {
	n, _ := strconv.ParseInt(text, 10, 64) // it was written here
	return tokens.Count(n)
}

// book charges the limits of a response's caller, which is here no more, and
// records what was used.
func (b *bills) book(ctx context.Context, id string, of debtor, rest tokens.Usage, r dialect.Report) error {
	g, rules := b.gateway, b.gateway.rules.Load()
	key := rules.Directory.Key(of.KeyID)
	if key == nil {
		return nil // its key is gone, and its limits with it
	}
	who := charge.Caller{Caller: tenant.Caller{Key: key, User: of.User}, Team: key.Team, Counter: of.IP}
	model, err := rules.model(who.Key, of.Model)
	if err != nil {
		return err
	}
	p := &plan{Plan: charge.Plan{Caller: who, Call: &dialect.Call{Model: of.Model}, Model: model}}
	for _, l := range p.Draws(rules.Limits) {
		if l.Limit.Unit != budget.Concurrency {
			p.Lines = append(p.Lines, budget.Line{Limit: l.Limit, Value: l.Value})
		}
	}
	if held, v := g.Limiter.Reserve(ctx, budget.Request{ID: "late_" + id, Lines: p.Lines, Force: true}); held != nil {
		held.Settle(p.Amounts(rest, 0))
	} else if len(p.Lines) > 0 {
		return fmt.Errorf("debit the rest of response %s: %d", id, v.Outcome)
	}
	g.Metrics.Tokens(who.TeamName(), p.Label(), rest)
	g.Metrics.Overrun(who.TeamName(), p.Label(), rest.Total())
	e := ledger.Entry{RequestID: id, Team: who.TeamName(), KeyID: of.KeyID, Model: of.Model, Endpoint: of.Endpoint, Status: 200, Outcome: string(charge.Completed), Usage: rest, ProviderModel: r.Model, User: of.User, Late: true, Charged: model.Amount(budget.Tokens, rest, 0)}
	if model.Prices != nil {
		e.MicroUSD = model.Amount(budget.USD, rest, 0)
		g.Metrics.Cost(who.TeamName(), p.Label(), "", e.MicroUSD)
	}
	g.Ledger.Record(e)
	return nil
}

// do does a piece of work beside the calls.
func (b *bills) do(work func(ctx context.Context) error) {
	b.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), billTimeout)
		defer cancel()
		if err := work(ctx); err != nil {
			b.gateway.Logger.Warn("the use of a background response may not be booked", "error", err.Error())
		}
	})
}
