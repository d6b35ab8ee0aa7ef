package memstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/memstore"
)

// BenchmarkReserveAndSettle is a request of 3 rates and a slot, and its end.
func BenchmarkReserveAndSettle(b *testing.B) {
	s := memstore.New(time.Now)
	lines, used, ids := benchLines(), []int64{50, 50, 50, 1}, benchIDs(b.N)
	ctx := context.Background()
	settlements := make([]budget.Settlement, 1)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		r := budget.Request{ID: ids[i], Epoch: "gw", Lines: lines}
		if v, err := s.Reserve(ctx, r); err != nil || v.Outcome != budget.Granted {
			b.Fatal(v, err)
		}
		settlements[0] = budget.Settlement{ID: ids[i], Epoch: "gw", Lines: lines, Used: used}
		if _, err := s.Settle(ctx, settlements); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReserve is a reserve of 3 rates and a slot alone.
func BenchmarkReserve(b *testing.B) {
	s := memstore.New(time.Now)
	lines, ids := benchLines(), benchIDs(b.N)
	ctx := context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if v, err := s.Reserve(ctx, budget.Request{ID: ids[i], Epoch: "gw", Lines: lines}); err != nil || v.Outcome != budget.Granted {
			b.Fatal(v, err)
		}
	}
}

func benchIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = "request-" + strconv.Itoa(i)
	}
	return ids
}

func benchLines() []budget.Line {
	var lines []budget.Line
	for _, name := range []string{"tpm", "rpm", "itpm"} {
		lines = append(lines, budget.Line{Amount: 100, Limit: (&budget.Limit{
			Place: "team/search", Scope: budget.Team, Name: name, Unit: budget.Tokens, Amount: 1 << 40, Period: budget.Second,
			Burst: 1 << 40, Bank: 4, MaxDebt: 1 << 40, Algorithm: budget.TokenBucket, Mode: budget.Enforce,
		}).Compile()})
	}
	return append(lines, budget.Line{Amount: 1, Limit: (&budget.Limit{
		Place: "team/search", Name: "slots", Unit: budget.Concurrency, Amount: 1 << 40, Algorithm: budget.Slots, Mode: budget.Enforce,
	}).Compile()})
}
