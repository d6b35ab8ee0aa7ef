package budget_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"llmgw/internal/budget"
)

func ExampleNewLimit() {
	tpm, err := budget.NewLimit(budget.Limit{Name: "tpm", Unit: budget.Tokens, Amount: 100_000, Period: budget.Minute})
	if err != nil {
		panic(err)
	}
	fmt.Println(tpm.By(), tpm.Algorithm, tpm.Burst, tpm.Bank, tpm.MaxDebt, tpm.Mode, tpm.WhenStoreDown)

	monthly, err := budget.NewLimit(budget.Limit{Name: "monthly", Unit: budget.USD, Amount: 500_000_000, Period: budget.Month})
	if err != nil {
		panic(err)
	}
	fmt.Println(monthly.By(), monthly.Algorithm, monthly.UnboundedDebt, monthly.Location, monthly.ResetDay)

	_, err = budget.NewLimit(budget.Limit{Name: "yearly", Unit: budget.Tokens, Amount: 1, Period: "fortnight"})
	fmt.Println(err)
	// Output:
	// gateway/tpm token_bucket 100000 4 1000000 enforce local
	// gateway/monthly calendar true UTC 1
	// limit "yearly": algorithm token_bucket: the period is "fortnight", not a second, minute, hour or a length
}

func TestNewLimitKeepsWhatIsSaid(t *testing.T) {
	athens := time.FixedZone("Athens", 2*60*60)
	said := budget.Limit{
		Place: "team/search", Scope: budget.Team, Owner: "search", Name: "daily", Tag: "search",
		Unit: budget.Tokens, Amount: 10, Period: budget.Day, Burst: 10, MaxDebt: 7, Location: athens, ResetDay: 1,
		Algorithm: budget.SlidingWindow, Mode: budget.Shadow, WhenStoreDown: budget.Closed, Version: 3,
	}
	got, err := budget.NewLimit(said)
	if err != nil || !reflect.DeepEqual(*got, said) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, said)
	}
}

func TestDebtIsWhatIsSaidOrTenCapacities(t *testing.T) {
	for _, s := range []struct {
		what      string
		l         budget.Limit
		want      int64
		unbounded bool
	}{
		{"a bucket", budget.Limit{Period: budget.Minute, Burst: 3}, 30, false},
		{"a window", budget.Limit{Period: budget.Minute, Algorithm: budget.SlidingWindow}, 50, false},
		{"a calendar budget", budget.Limit{Period: budget.Month}, 0, true},
		{"a calendar budget with a bound", budget.Limit{Period: budget.Month, MaxDebt: 9}, 9, false},
		{"none wanted", budget.Limit{Period: budget.Minute, MaxDebt: budget.NoDebt}, 0, false},
		{"none wanted of a month", budget.Limit{Period: budget.Month, MaxDebt: budget.NoDebt}, 0, false},
		{"no bound wanted", budget.Limit{Period: budget.Minute, UnboundedDebt: true}, 0, true},
	} {
		s.l.Name, s.l.Unit, s.l.Amount = "l", budget.Tokens, 5
		got, err := budget.NewLimit(s.l)
		if err != nil || got.MaxDebt != s.want || got.UnboundedDebt != s.unbounded {
			t.Errorf("%s: got a debt of %d, unbounded %v, %v; want %d, %v", s.what, got.MaxDebt, got.UnboundedDebt, err, s.want, s.unbounded)
		}
	}
	slots, err := budget.NewLimit(budget.Limit{Name: "slots", Unit: budget.Concurrency, Amount: 5})
	if err != nil || slots.Algorithm != budget.Slots || slots.MaxDebt != 0 || slots.Capacity() != 5 {
		t.Errorf("slots: got %+v, %v", slots, err)
	}
}
