package memstore_test

import (
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/budgettest"
	"llmgw/internal/budget/memstore"
)

func TestTheMemoryStoreKeepsTheContract(t *testing.T) {
	budgettest.Run(t, func(t *testing.T) (budget.Store, budgettest.Advance) {
		now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
		s := memstore.New(func() time.Time { return now })
		t.Cleanup(func() { s.Close() })
		return s, func(d time.Duration) { now = now.Add(d) }
	})
}
