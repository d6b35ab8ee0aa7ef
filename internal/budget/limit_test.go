package budget

import "testing"

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
