package budget

import (
	"testing"
	"time"
)

func TestALimitHasOneCounterUnlessItCountsEachValue(t *testing.T) {
	for _, s := range []struct {
		what  string
		limit Limit
		one   bool
	}{
		{"the gateway's", Limit{Place: "gateway", Scope: Gateway}, true},
		{"a team's", Limit{Place: "team/search", Scope: Team, Owner: "search"}, true},
		{"a key's", Limit{Place: "key/k", Scope: Key, Owner: "k"}, true},
		{"a provider's", Limit{Place: "provider/p", Scope: Provider, Owner: "p"}, true},
		{"a model's own", Limit{Place: "model/m", Scope: Model, Owner: "m"}, true},
		{"each model's within a team", Limit{Place: "team/search", Scope: Model, Owner: "search"}, false},
		{"each model's of the gateway", Limit{Place: "gateway", Scope: Model}, false},
		{"each user's", Limit{Place: "team/search", Scope: User, Owner: "search"}, false},
		{"each address's", Limit{Place: "gateway", Scope: IP}, false},
	} {
		if got := s.limit.Single(); got != s.one {
			t.Errorf("%s: got one counter %v, want %v", s.what, got, s.one)
		}
	}
}

func TestALimitGainsWithTime(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, s := range []struct {
		what   string
		amount int64
		period Period
		n      int64
		want   time.Duration
	}{
		{"what it has a minute", 6000, Minute, 600, 6 * time.Second},
		{"a fraction of a millisecond", 1 << 40, Second, 1 << 20, 953},
		{"what was used beyond it", 60, Minute, -2, -2 * time.Second},
		{"by a calendar", 100, Month, 10, 0},
		{"slots", 5, "", 1, 0},
	} {
		l := &Limit{Amount: s.amount, Period: s.period}
		if got := l.Gain(s.n); got != s.want {
			t.Errorf("%s: got %v, want %v", s.what, got, s.want)
		}
	}
	slow := &Limit{Amount: 1, Period: Hour}
	if got := slow.Gain(MaxExact); got < 70*year || got > 75*year {
		t.Errorf("what takes a million million years: got %v, want a time that can be told", got)
	}
	if got := slow.Gain(-MaxExact); got > -70*year {
		t.Errorf("as much debt: got %v, want a time that can be told", got)
	}
}

func TestAnotherAmountBringsWhatFollowsFromIt(t *testing.T) {
	l, err := NewLimit(Limit{Name: "tpm", Unit: Tokens, Amount: 100, Period: Minute, Version: 3})
	if err != nil {
		t.Fatal(err)
	}
	if got := l.WithAmount(300, 9); got.Amount != 300 || got.Burst != 300 || got.MaxDebt != 3000 || got.FromFile() != 100 || got.Version != 9 || Validate(got) != nil {
		t.Errorf("got %+v", got)
	}
	if got := l.WithAmount(300, 9).WithAmount(50, 10); got.FromFile() != 100 || got.Burst != 50 {
		t.Errorf("twice: got %+v", got)
	}
	said, err := NewLimit(Limit{Name: "tpm", Unit: Tokens, Amount: 100, Burst: 40, MaxDebt: 7, Period: Minute})
	if err != nil {
		t.Fatal(err)
	}
	if got := said.WithAmount(300, 9); got.Burst != 40 || got.MaxDebt != 7 {
		t.Errorf("what is said does not stay: got %+v", got)
	}
}
