package redisstore

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"llmgw/internal/budget"
	"llmgw/internal/redistest"
)

// before calls do once, before the first call of a script.
type before struct {
	redis.Hook
	sha  string
	do   func()
	once sync.Once
}

func (b *before) DialHook(next redis.DialHook) redis.DialHook { return next }
func (b *before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (b *before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if slices.Contains(cmd.Args(), any(b.sha)) {
			b.once.Do(b.do)
		}
		return next(ctx, cmd)
	}
}

// D1: on a cluster a request that is refused elsewhere holds what it has taken
// for a moment. What that is in the way of is looked at again, when it has passed.
func TestAPassingHoldOnAClusterRefusesNobodyAndNamesNoLimit(t *testing.T) {
	servers := redistest.StartCluster(t, 3, 0)
	for _, c := range []struct {
		what    string
		short   int64 // taken of the second limit for good
		outcome budget.Outcome
		binding int
	}{
		{"alone in the way", 0, budget.Granted, -1},
		{"beside a limit that is short", 95, budget.Exceeded, 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := openCluster(t, servers)
			first, second := of(tpm(100), "a"), of(tpm(100), "b")
			reserve(t, s, request("stays", second, c.short))
			reserve(t, s, request("passes", first, 100))
			s.client.AddHook(&before{sha: s.scripts.read.sha, do: func() {
				if _, err := s.Settle(context.Background(), []budget.Settlement{settlement("passes", first, 0)}); err != nil {
					t.Error(err)
				}
			}})
			v := reserve(t, s, budget.Request{ID: "asks", Epoch: "gw", Lines: []budget.Line{{Limit: first, Amount: 10}, {Limit: second, Amount: 10}}})
			if v.Outcome != c.outcome || v.Binding != c.binding {
				t.Errorf("got %+v, want outcome %v by line %d", v, c.outcome, c.binding)
			}
		})
	}
}

// A team whose own limit is spent takes nothing of what all teams share.
func TestARefusedTeamOnAClusterHoldsNothingOfTheGatewaysLimits(t *testing.T) {
	s := openCluster(t, redistest.StartCluster(t, 3, 0))
	shared, own := of(tpm(100), "gateway"), of(tpm(100), "search") // the gateway's would be first by its name
	shared.Place = "gateway"
	reserve(t, s, request("stays", own, 100))
	v := reserve(t, s, budget.Request{ID: "asks", Epoch: "gw", Lines: []budget.Line{{Limit: shared, Amount: 10}, {Limit: own, Amount: 10}}})
	if v.Outcome != budget.Exceeded || v.Binding != 1 || v.Lines[0].Remaining != 100 {
		t.Errorf("got %+v, want the team's limit exceeded, and the gateway's whole", v)
	}
	key := s.rulesOf(shared).key("")
	if n, err := s.client.Exists(context.Background(), key).Result(); err != nil || n != 0 {
		t.Errorf("the gateway's counter: got %d, %v, want none: nobody has taken anything", n, err)
	}
}
