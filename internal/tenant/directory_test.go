package tenant

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"llmgw/internal/budget"
)

func key(id, secret string) Key { return Key{ID: id, SHA256: sha256.Sum256([]byte(secret))} }

func mustDirectory(t testing.TB, teams ...Team) *Directory {
	t.Helper()
	d, err := NewDirectory(teams)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestASecretIdentifiesItsKeyAndTeam(t *testing.T) {
	longest := strings.Repeat("x", maxSecret)
	d := mustDirectory(t,
		Team{Name: "search", Keys: []Key{key("s-1", "one"), key("s-2", "two")}},
		Team{Name: "support", Keys: []Key{key("t-1", "three"), key("l", longest)}},
		Team{Name: "empty"},
	)
	for _, s := range []struct{ secret, id, team string }{
		{"one", "s-1", "search"},
		{"two", "s-2", "search"},
		{"three", "t-1", "support"},
		{"four", "", ""},
		{longest, "l", "support"},
		{"One", "", ""},
		{"one ", "", ""},
		{"", "", ""},
		{string(hashOf("one")), "", ""},
		{fmt.Sprintf("%x", hashOf("one")), "", ""}, // the hash does not open what it guards
		{strings.Repeat("x", maxSecret+1), "", ""},
	} {
		k, ok := d.Identify(s.secret)
		if ok != (s.id != "") || (k != nil) != ok {
			t.Errorf("%.20q: got %v, %v", s.secret, k, ok)
			continue
		}
		if ok && (k.ID != s.id || k.Team.Name != s.team) {
			t.Errorf("%q: got key %q of %q, want %q of %q", s.secret, k.ID, k.Team.Name, s.id, s.team)
		}
	}
	if d.Key("s-2").Team != d.Team("search") || d.Key("nobody") != nil || d.Team("nobody") != nil {
		t.Error("keys and teams are not found by name")
	}
	if got := d.Teams(); len(got) != 3 || got[0].Name != "search" || got[2].Name != "empty" {
		t.Errorf("got the teams %v", got)
	}
}

func hashOf(secret string) []byte {
	h := sha256.Sum256([]byte(secret))
	return h[:]
}

func TestHashesThatShareTheirBeginningAreToldApart(t *testing.T) {
	exact := key("exact", "secret")
	near := Key{ID: "near", SHA256: exact.SHA256}
	near.SHA256[31] ^= 1
	for _, keys := range [][]Key{{near, exact}, {exact, near}} {
		d := mustDirectory(t, Team{Name: "a", Keys: keys})
		if k, ok := d.Identify("secret"); !ok || k.ID != "exact" {
			t.Errorf("got %v, %v, want the exact one", k, ok)
		}
	}
	d := mustDirectory(t, Team{Name: "a", Keys: []Key{near}})
	if k, ok := d.Identify("secret"); ok || k != nil {
		t.Errorf("got %v for a hash that is only near", k)
	}
}

func TestADirectoryRefusesWhatIsThereTwice(t *testing.T) {
	for _, s := range []struct {
		what  string
		teams []Team
		want  string
	}{
		{"a team", []Team{{Name: "a"}, {Name: "a"}}, `team "a" is there twice`},
		{"an id", []Team{{Name: "a", Keys: []Key{key("k", "x")}}, {Name: "b", Keys: []Key{key("k", "y")}}}, `key "k" is there twice`},
		{"a secret", []Team{{Name: "a", Keys: []Key{key("k", "x"), key("l", "x")}}}, `keys "k" and "l" have one secret`},
	} {
		if _, err := NewDirectory(s.teams); err == nil || err.Error() != s.want {
			t.Errorf("%s: got %v, want %s", s.what, err, s.want)
		}
	}
}

func TestADirectoryKeepsNothingOfWhatItWasGiven(t *testing.T) {
	limit := &budget.Limit{Name: "l"}
	teams := []Team{{Name: "a", Models: map[string]bool{"m": true}, Limits: []*budget.Limit{limit},
		Keys: []Key{{ID: "k", SHA256: sha256.Sum256([]byte("x")), Limits: []*budget.Limit{limit}}}}}
	d := mustDirectory(t, teams...)
	teams[0].Name, teams[0].Keys[0].ID = "b", "l"
	teams[0].Models["n"] = true
	teams[0].Limits[0], teams[0].Keys[0].Limits[0] = nil, nil
	k, ok := d.Identify("x")
	if !ok || k.ID != "k" || k.Team.Name != "a" || k.Team.Allows("n") || k.Limits[0] != limit || k.Team.Limits[0] != limit {
		t.Errorf("got %+v of %+v", k, k.Team)
	}
}

func TestWhatATeamMayAskFor(t *testing.T) {
	for _, s := range []struct {
		models map[string]bool
		model  string
		want   bool
	}{
		{nil, "gpt-4o", true},
		{map[string]bool{}, "gpt-4o", false},
		{map[string]bool{"gpt-4o": true}, "gpt-4o", true},
		{map[string]bool{"gpt-4o": true}, "gpt-4", false},
		{map[string]bool{"gpt-4o": true}, "GPT-4O", false},
		{map[string]bool{"gpt-4o": true}, "", false},
		{map[string]bool{"*": true}, "anything", true},
	} {
		if got := (&Team{Models: s.models}).Allows(s.model); got != s.want {
			t.Errorf("%v, %q: got %v, want %v", s.models, s.model, got, s.want)
		}
	}
}

func TestIdentifyDoesNotAllocate(t *testing.T) {
	secret, hash := NewSecret()
	d := mustDirectory(t, Team{Name: "a", Keys: []Key{{ID: "k", SHA256: hash}}})
	for _, s := range []string{secret, "nobody's", strings.Repeat("x", maxSecret)} {
		if got := testing.AllocsPerRun(100, func() { d.Identify(s) }); got != 0 {
			t.Errorf("%.20q: got %v allocations, want 0", s, got)
		}
	}
}

func TestANewSecretOpensItsHashAndNoOther(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		secret, hash := NewSecret()
		if seen[secret] {
			t.Fatal("a secret came twice")
		}
		seen[secret] = true
		if hash != sha256.Sum256([]byte(secret)) {
			t.Error("the hash is another secret's")
		}
		random, ok := strings.CutPrefix(secret, "sk-llmgw-")
		if !ok || len(random) < 32 || strings.Trim(random, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Errorf("got %q", secret)
		}
	}
}

func BenchmarkIdentify(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		team := Team{Name: "a"}
		var secret string
		for i := range n {
			s, hash := NewSecret()
			secret = s
			team.Keys = append(team.Keys, Key{ID: fmt.Sprint(i), SHA256: hash})
		}
		d := mustDirectory(b, team)
		for _, who := range []struct{ name, secret string }{{"known", secret}, {"unknown", secret + "x"}} {
			b.Run(fmt.Sprintf("%s of %d", who.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					d.Identify(who.secret)
				}
			})
		}
	}
}
