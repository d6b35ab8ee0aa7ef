package estimate

import (
	"testing"

	"llmgw/internal/tokens"
)

// reasoned is an answer of a team's call whose visible text is counted as 100
// tokens.
func reasoned(team string, used tokens.Usage, refers bool) Observation {
	return Observation{
		Rules: Rules{Provider: "p", ProviderModel: "m", Team: team}, Estimate: Estimate{base: 10, hidden: refers},
		Used: used, InputKnown: true, OutputKnown: true, Complete: true, Counted: 100,
	}
}

func TestWhatCallsUseUnseenIsLearned(t *testing.T) {
	for _, s := range []struct {
		what string
		seen Observation
		want Unseen
	}{
		{"reasoning that is not shown", reasoned("t", tokens.Usage{Input: 12, Output: 5100, Reasoning: 5000}, false), Unseen{Hidden: 5000, Output: 5100}},
		{"reasoning that is shown, and counted", reasoned("t", tokens.Usage{Input: 12, Output: 110, Reasoning: 60}, false), Unseen{Output: 110}},
		{"a tokenizer that counts a little more", reasoned("t", tokens.Usage{Input: 12, Output: 120}, false), Unseen{Output: 120}},
		{"a stored conversation", reasoned("t", tokens.Usage{Input: 200_010, Output: 100}, true), Unseen{Input: 200_010, Output: 100}},
		{"input that the body shows", reasoned("t", tokens.Usage{Input: 2000, Output: 100}, false), Unseen{Output: 100}},
		{"an answer that was cut", Observation{Rules: Rules{Provider: "p", ProviderModel: "m", Team: "t"}, Used: tokens.Usage{Input: 9, Output: 9}, InputKnown: true, OutputKnown: true}, Unseen{}},
	} {
		e := New(Config{})
		for range unseenEnough {
			e.Observe(s.seen)
		}
		if got := e.Unseen(nil, s.seen.Rules, s.seen.Estimate); got != s.want {
			t.Errorf("%s: got %+v, want %+v", s.what, got, s.want)
		}
		restored := New(Config{})
		if err := restored.Restore(e.Snapshot()); err != nil {
			t.Fatal(err)
		}
		if got := restored.Unseen(nil, s.seen.Rules, s.seen.Estimate); got != s.want {
			t.Errorf("%s, restored: got %+v, want %+v", s.what, got, s.want)
		}
	}
}

func TestATeamIsJudgedByItsOwnAnswersOnceThereAreSome(t *testing.T) {
	e := New(Config{})
	other, own := reasoned("other", tokens.Usage{Input: 10, Output: 1100}, false), reasoned("t", tokens.Usage{Input: 10, Output: 100}, false)
	e.Observe(other)
	if got := e.Unseen(nil, own.Rules, own.Estimate); got.Hidden != 1000 {
		t.Errorf("a new team: got %+v, want what others have shown", got)
	}
	for range unseenEnough {
		e.Observe(own)
	}
	for range 100 {
		e.Observe(other)
	}
	if got := e.Unseen(nil, own.Rules, own.Estimate); got.Hidden != 0 || got.Output != 100 {
		t.Errorf("a team with answers of its own: got %+v", got)
	}
	if got := e.Unseen(nil, reasoned("t", tokens.Usage{}, true).Rules, Estimate{hidden: true}); got != (Unseen{}) {
		t.Errorf("calls of another kind: got %+v", got)
	}
}

func TestWhatIsKnownOfTheUnseenIsBounded(t *testing.T) {
	e := New(Config{LearnedModels: 4})
	for _, team := range []string{"a", "b", "c", "d", "e", "f"} {
		e.Observe(reasoned(team, tokens.Usage{Input: 1, Output: 100}, false))
	}
	if n := len(e.unseen.all); n != 4 {
		t.Errorf("%d keys are kept, want 4", n)
	}
	before := string(e.Snapshot())
	for _, bad := range []string{`"input":-1`, `"input":1e300`} {
		if err := e.Restore([]byte(`{"version":1,"unseen":[{"provider":"p","model":"m","hidden":1,"output":1,"answers":1,` + bad + `}]}`)); err == nil {
			t.Errorf("a snapshot with %s was taken", bad)
		}
	}
	if err := e.Merge([]byte(before)); err != nil || len(e.unseen.all) != 4 {
		t.Errorf("merging itself: %v, %d keys", err, len(e.unseen.all))
	}
}
