package budget

import (
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func minuteBucket(amount int64) *Limit {
	return &Limit{
		Place: "team/a", Name: "tpm", Unit: Tokens, Amount: amount, Period: Minute, Burst: amount, Bank: 4,
		MaxDebt: 10 * amount, Algorithm: TokenBucket, Mode: Enforce,
	}
}

func TestALimitThatCannotBeCountedExactlyIsRefusedWithItsReason(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(*Limit)
		reason string // "" if it is valid
	}{
		{"an ordinary one", func(*Limit) {}, ""},
		{"no amount", func(l *Limit) { l.Amount = 0 }, "amount"},
		{"a negative amount", func(l *Limit) { l.Amount = -1 }, "amount"},
		{"an amount beyond 2^53", func(l *Limit) { l.Amount = 1 << 53 }, "amount"},
		{"a bucket without capacity", func(l *Limit) { l.Burst = 0 }, "burst"},
		{"a negative debt", func(l *Limit) { l.MaxDebt = -1 }, "max_debt"},
		{"a negative bank", func(l *Limit) { l.Bank = -1 }, "bank"},
		{"a bank beyond 2^53", func(l *Limit) { l.Bank = 1 << 50 }, "bank"},
		{"a negative candidate", func(l *Limit) { l.Candidate = -1 }, "candidate"},
		{"a candidate whose debt is too large", func(l *Limit) { l.Candidate = 1 << 52 }, "candidate"},
		{"a bucket a day", func(l *Limit) { l.Period = Day }, "day"},
		{"a bucket without a period", func(l *Limit) { l.Period = "" }, "period"},
		{"a period that does not exist", func(l *Limit) { l.Period = "fortnight" }, "fortnight"},
		{"an algorithm that does not exist", func(l *Limit) { l.Algorithm = "leaky" }, "leaky"},
		{"slots of tokens", func(l *Limit) { l.Algorithm = Slots }, "slots"},
		{"a bucket of slots", func(l *Limit) { l.Unit = Concurrency }, "concurrency"},
		{"slots", func(l *Limit) { l.Unit, l.Algorithm, l.Period = Concurrency, Slots, "" }, ""},
		{"a calendar budget a minute", func(l *Limit) { l.Algorithm, l.Location = CalendarUsage, time.UTC }, "minute"},
		{"a calendar budget without a zone", func(l *Limit) { l.Algorithm, l.Period = CalendarUsage, Day }, "zone"},
		{"a reset day beyond the week", func(l *Limit) { l.Algorithm, l.Period, l.Location, l.ResetDay = CalendarUsage, Week, time.UTC, 8 }, "reset_day"},
		{"a calendar budget", func(l *Limit) { l.Algorithm, l.Period, l.Location = CalendarUsage, Month, time.UTC }, ""},
		{"a debt without bound", func(l *Limit) { l.MaxDebt, l.UnboundedDebt = 0, true }, ""},
		{"too large for its rate", func(l *Limit) {
			l.Amount, l.Period, l.Burst, l.MaxDebt = 1_000_000_007, Hour, 1_000_000_007, 10_000_000_070
		}, "exactly"},
		{"as large at a rate that is a whole number", func(l *Limit) {
			l.Amount, l.Period, l.Burst, l.MaxDebt = 3_600_000_000, Hour, 1_000_000_007, 10_000_000_070
		}, ""},
		{"a sliding window", func(l *Limit) { l.Algorithm = SlidingWindow }, ""},
		{"a sliding window of a day", func(l *Limit) { l.Algorithm, l.Period = SlidingWindow, Day }, ""},
		{"a sliding window too large for its length", func(l *Limit) { l.Algorithm, l.Period, l.Amount = SlidingWindow, Hour, 1<<33 }, "exactly"},
		{"a sliding log of a thousand", func(l *Limit) { l.Algorithm, l.Amount = SlidingLog, 1000 }, ""},
		{"a sliding log of more", func(l *Limit) { l.Algorithm, l.Amount = SlidingLog, 1001 }, "1000"},
	} {
		l := minuteBucket(100)
		c.change(l)
		err := Validate(l)
		switch {
		case c.reason == "" && err != nil:
			t.Errorf("%s: got %v, want it valid", c.what, err)
		case c.reason != "" && err == nil:
			t.Errorf("%s: got it valid, want it refused", c.what)
		case c.reason != "" && !strings.Contains(err.Error(), c.reason):
			t.Errorf("%s: got %q, want it to name %q", c.what, err, c.reason)
		}
	}
}

// What Validate lets through cannot leave 2^53, at the worst values there are.
func TestTheProofOfValidateHoldsInWholeNumbers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	most := big.NewInt(MaxExact)
	valid := 0
	for range 20_000 {
		l := minuteBucket(1 + random.Int64N(1<<random.IntN(53)))
		l.Period = []Period{Second, Minute, Hour}[random.IntN(3)]
		l.Burst = 1 + random.Int64N(1<<random.IntN(53))
		l.MaxDebt = random.Int64N(1 << random.IntN(53))
		l.Algorithm = []Algorithm{TokenBucket, SlidingWindow}[random.IntN(2)]
		l.Bank = random.Int64N(5)
		if Validate(l) != nil {
			continue
		}
		valid++
		r := RulesOf(l)
		all := big.NewInt(r.Capacity)
		all.Add(all, big.NewInt(r.Debt))
		if l.Algorithm == TokenBucket {
			all.Mul(all, big.NewInt(r.Den))
			all.Add(all, big.NewInt(r.Num+r.Den))
			if r.Bank > 0 && new(big.Int).Mul(big.NewInt(r.Bank), big.NewInt(r.Capacity)).Cmp(most) > 0 {
				t.Fatalf("%+v: the bank is beyond 2^53", r)
			}
		} else {
			all.Mul(all, big.NewInt(2*r.Window))
		}
		if all.Cmp(most) > 0 {
			t.Fatalf("%+v: %v is beyond 2^53", r, all)
		}
	}
	if valid < 1000 {
		t.Errorf("only %d limits were valid", valid)
	}
}

func TestARateIsInLowestTerms(t *testing.T) {
	for _, c := range []struct {
		amount   int64
		per      Period
		num, den int64
	}{
		{100_000, Minute, 5, 3},
		{1, Hour, 1, 3_600_000},
		{1000, Second, 1, 1},
		{60_001, Minute, 60_001, 60_000},
	} {
		l := minuteBucket(c.amount)
		l.Period = c.per
		if r := RulesOf(l); r.Num != c.num || r.Den != c.den {
			t.Errorf("%d per %s: got %d/%d, want %d/%d", c.amount, c.per, r.Num, r.Den, c.num, c.den)
		}
	}
}

func TestADebtWithoutBoundIsTheMostThatCanBeCounted(t *testing.T) {
	for _, l := range []*Limit{
		minuteBucket(100),
		{Algorithm: CalendarUsage, Unit: USD, Period: Month, Location: time.UTC, Amount: 100},
		{Algorithm: SlidingWindow, Unit: Tokens, Period: Hour, Amount: 100},
	} {
		l.MaxDebt, l.UnboundedDebt = 0, true
		r := RulesOf(l)
		if err := r.validate(); err != nil {
			t.Errorf("%s: %v", l.Algorithm, err)
		}
		r.Debt++
		if r.validate() == nil {
			t.Errorf("%s: a debt of %d is not the most", l.Algorithm, r.Debt-1)
		}
	}
}

func TestAKeyStaysOverReloadsAndTellsCountersApart(t *testing.T) {
	l := minuteBucket(100)
	if got, want := counterKey(l, "ann"), "team/a|tpm|tokens|minute|ann"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	changed := *l
	changed.Amount, changed.Burst, changed.Version, changed.Algorithm, changed.Owner = 5, 7, 9, SlidingWindow, "b"
	if counterKey(&changed, "ann") != counterKey(l, "ann") {
		t.Error("a reload with another amount has another key")
	}
	long := strings.Repeat("x", 200)
	if got := counterKey(l, long); len(got) > 70 {
		t.Errorf("a long value makes a key of %d bytes", len(got))
	}
	keys := map[string]string{}
	for _, place := range []string{"a", "a|b", "a%7Cb", "a%b"} {
		for _, name := range []string{"n", "b|n", "n|tokens"} {
			for _, value := range []string{"", "v", "|v", "#", KeyValue(long), long, long + "x"} {
				l := &Limit{Place: place, Name: name, Unit: Tokens, Period: Minute, Amount: 1, Burst: 1, Algorithm: TokenBucket}
				key := counterKey(l, value)
				if other, ok := keys[key]; ok {
					t.Errorf("%q, %q and %q share the key of %s", place, name, value, other)
				}
				keys[key] = place + " " + name + " " + value
			}
		}
	}
}

func TestACandidateIsTheLimitInProportion(t *testing.T) {
	l := minuteBucket(100)
	if CandidateOf(l) != nil {
		t.Error("a limit without a candidate has one")
	}
	l.Burst, l.MaxDebt, l.Candidate = 30, 1000, 50
	c := CandidateOf(l)
	if c.Amount != 50 || c.Burst != 15 || c.MaxDebt != 500 || c.Mode != Shadow || c.Candidate != 0 {
		t.Errorf("got %+v", c)
	}
	if counterKey(c, "") == counterKey(l, "") {
		t.Error("it shares the limit's counter")
	}
	l.Burst, l.Amount, l.Candidate = 1, 1000, 1
	if got := CandidateOf(l).Burst; got != 1 {
		t.Errorf("the smallest burst: got %d, want 1", got)
	}
	if got := scale(MaxExact, MaxExact, 1); got != MaxExact {
		t.Errorf("a product beyond 2^53: got %d, want %d", got, int64(MaxExact))
	}
}

// counterKey names a counter as stores do.
func counterKey(l *Limit, value string) string { return KeyPrefix(l) + KeyValue(value) }
