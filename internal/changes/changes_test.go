package changes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
)

// list is a Log in this process that can be away, and lose what it has.
type list struct {
	mu    sync.Mutex
	texts []string
	away  error
	lost  error // of the next Append, which is done all the same
}

func (l *list) From(_ context.Context, n int) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.texts[min(n, len(l.texts)):]), l.away
}

func (l *list) Append(_ context.Context, n int, text string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away != nil || n != len(l.texts) {
		return false, l.away
	}
	l.texts = append(l.texts, text)
	err := l.lost
	l.lost = nil
	return err == nil, err
}

// makeKey makes a key with this id, unless there is one.
func makeKey(t *testing.T, c *Changes, id string) error {
	t.Helper()
	return c.Make(t.Context(), func(s *State) (*Entry, error) {
		if _, taken := s.Key(id); taken {
			return nil, errors.New("taken")
		}
		return &Entry{Action: KeyCreated, Target: id, Key: &Key{ID: id, Team: "search"}}, nil
	})
}

func ids(c *Changes) (ids []string) {
	for _, k := range c.State().Keys() {
		ids = append(ids, k.ID)
	}
	return ids
}

func TestWhatOneGatewayChangesTheOthersRead(t *testing.T) {
	l := &list{}
	told := 0
	a, b := New(l, time.Now, nil), New(l, time.Now, func() { told++ })
	for _, id := range []string{"one", "two"} {
		if err := makeKey(t, a, id); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := b.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(ids(b), []string{"one", "two"}) || told != 1 {
		t.Errorf("got %q, told %d times", ids(b), told)
	}
}

func TestAnIDIsTakenOnceHoweverManyGatewaysTry(t *testing.T) {
	l := &list{}
	var made sync.Map
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			c := New(l, time.Now, nil)
			for i := range 5 {
				if err := makeKey(t, c, fmt.Sprint("k", i)); err == nil {
					if _, twice := made.LoadOrStore(i, g); twice {
						t.Errorf("k%d was made twice", i)
					}
				}
			}
		})
	}
	all.Wait()
	if len(l.texts) != 5 {
		t.Errorf("%d entries, want 5", len(l.texts))
	}
}

func TestAGatewayThatWasCutOffKeepsWhatItKnowsAndCatchesUp(t *testing.T) {
	l := &list{}
	a := New(l, time.Now, nil)
	if err := makeKey(t, a, "before"); err != nil {
		t.Fatal(err)
	}
	l.away = errors.New("away")
	if err := makeKey(t, a, "meanwhile"); !errors.Is(err, l.away) {
		t.Errorf("a change without the log: %v", err)
	}
	if err := a.Refresh(t.Context()); err == nil || !slices.Equal(ids(a), []string{"before"}) {
		t.Errorf("%v, knows %q", err, ids(a))
	}
	l.away = nil
	if err := makeKey(t, New(l, time.Now, nil), "later"); err != nil {
		t.Fatal(err)
	}
	if err := a.Refresh(t.Context()); err != nil || !slices.Equal(ids(a), []string{"before", "later"}) {
		t.Errorf("%v, knows %q", err, ids(a))
	}
}

func TestALogThatLostItsEndGetsItBack(t *testing.T) {
	for _, kept := range []int{0, 1, 2} {
		l := &list{}
		a, b := New(l, time.Now, nil), New(l, time.Now, nil)
		for _, id := range []string{"one", "three", "two"} {
			if err := makeKey(t, a, id); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.texts = l.texts[:kept]
		for range 2 {
			for _, c := range []*Changes{a, b} {
				if err := c.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		fresh := New(l, time.Now, nil)
		if err := fresh.Refresh(t.Context()); err != nil || len(ids(fresh)) != 3 || len(l.texts) != 3 {
			t.Errorf("%d kept: %v, %q in %d entries", kept, err, ids(fresh), len(l.texts))
		}
	}
}

func TestALogWithOtherEntriesIsBelieved(t *testing.T) {
	l := &list{}
	a := New(l, time.Now, nil)
	if err := makeKey(t, a, "old"); err != nil {
		t.Fatal(err)
	}
	l.texts = nil
	if err := makeKey(t, New(l, time.Now, nil), "new"); err != nil {
		t.Fatal(err)
	}
	if err := a.Refresh(t.Context()); err != nil || !slices.Equal(ids(a), []string{"new"}) {
		t.Errorf("%v, knows %q", err, ids(a))
	}
}

func TestANoteIsInTheAuditOnceAlsoIfTheLogWasAway(t *testing.T) {
	l := &list{away: errors.New("away")}
	c := New(l, time.Now, nil)
	for _, target := range []string{"first", "second"} {
		if err := c.Note(t.Context(), Entry{Action: BlockAdded, Target: target}); err == nil {
			t.Error("the log was away")
		}
	}
	l.away, l.lost = nil, errors.New("the answer was lost")
	for range 3 {
		_ = c.Refresh(t.Context())
	}
	var got []string
	for _, e := range c.State().Audit() {
		got = append(got, e.Target)
	}
	if !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("the audit has %q", got)
	}
}

func TestAnEntryOfALaterVersionHasItsPlace(t *testing.T) {
	l := &list{texts: []string{`{"action": "of tomorrow", "limit": "text"}`, "{}"}}
	c := New(l, time.Now, nil)
	if err := makeKey(t, c, "one"); err != nil || len(l.texts) != 3 || !slices.Equal(ids(c), []string{"one"}) {
		t.Errorf("%v: %q, knows %q", err, l.texts, ids(c))
	}
}

// limitOf is a budget of 100 requests a day.
func limitOf(value budget.Scope) *budget.Limit {
	l, err := budget.NewLimit(budget.Limit{Place: "team/search", Scope: value, Owner: "search", Name: "daily", Unit: budget.Requests, Amount: 100, Period: budget.Day, Version: 1})
	if err != nil {
		panic(err)
	}
	return l.Compile()
}

func TestTheAmountInForceFollowsOverridesAndCredits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		at := start.Add
		l, s := limitOf(budget.Team), newState()
		name := NameOf(l, "")
		version := func(d time.Duration) int64 { return at(d).UnixMilli() }
		s.apply(Entry{Action: OverrideSet, Override: &Override{Limit: name, Amount: 300, Until: at(4 * time.Hour), Version: version(0)}})
		s.apply(Entry{Action: CreditGiven, Credit: &Credit{Limit: name, Amount: 20, From: at(time.Hour), ExpiresAt: at(6 * time.Hour), Version: version(time.Hour)}})
		s.apply(Entry{Action: CreditGiven, Credit: &Credit{Limit: name, Amount: 7, From: at(time.Hour), ExpiresAt: at(5 * time.Hour), Version: version(time.Hour)}})
		last := int64(0)
		for _, step := range []struct {
			after  time.Duration
			amount int64
		}{{2 * time.Hour, 327}, {4 * time.Hour, 127}, {5 * time.Hour, 120}, {6 * time.Hour, 100}} {
			got := s.Apply(l, at(step.after))
			if got.Amount != step.amount || got.FromFile() != 100 || got.Version <= last {
				t.Errorf("after %v: %d of %d, version %d after %d; want %d", step.after, got.Amount, got.FromFile(), got.Version, last, step.amount)
			}
			if next := s.Next(at(step.after - time.Millisecond)); step.after > 2*time.Hour && !next.Equal(at(step.after)) {
				t.Errorf("the change of %v is expected at %v", step.after, next.Sub(start))
			}
			last = got.Version
		}
		if !s.Next(at(6 * time.Hour)).IsZero() {
			t.Error("nothing changes any more")
		}
	})
}

func TestARemovedOverrideIsNewerThanTheOverride(t *testing.T) {
	l, s := limitOf(budget.Team), newState()
	name := NameOf(l, "")
	s.apply(Entry{Action: OverrideSet, Override: &Override{Limit: name, Amount: 300, Until: time.Now().Add(time.Hour), Version: 5}})
	s.apply(Entry{Action: OverrideRemoved, Limit: &name, Version: 9})
	if got := s.Apply(l, time.Now()); got.Amount != 100 || got.Version != 9 {
		t.Errorf("%d at version %d", got.Amount, got.Version)
	}
	newer := limitOf(budget.Team)
	newer.Version = 50
	if got := s.Apply(newer, time.Now()); got != newer {
		t.Error("a newer file is not as it is")
	}
}

func TestAnOverrideThatEndsBeforeItsVersionStillEnds(t *testing.T) {
	l, s := limitOf(budget.Team), newState()
	until := time.UnixMilli(1000) // the clock of the gateway that set it was ahead
	s.apply(Entry{Action: OverrideSet, Override: &Override{Limit: NameOf(l, ""), Amount: 300, Until: until, Version: 5000}})
	if got := s.Apply(l, time.UnixMilli(2000)); got.Amount != 100 || got.Version <= 5000 {
		t.Errorf("%d at version %d", got.Amount, got.Version)
	}
}

func TestOneUserOfALimitHasAnAmountOfItsOwn(t *testing.T) {
	l, s := limitOf(budget.User), newState()
	s.apply(Entry{Action: OverrideSet, Override: &Override{Limit: NameOf(l, "alice"), Amount: 300, Until: time.Now().Add(time.Hour), Version: 5}})
	got := s.Apply(l, time.Now())
	if got.For("alice").Amount != 300 || got.For("bob").Amount != 100 || got.For("bob").Version != 1 {
		t.Errorf("alice has %d, bob %d", got.For("alice").Amount, got.For("bob").Amount)
	}
	if l.Values != nil {
		t.Error("the configured limit was changed")
	}
}

func TestEntriesSurviveJSON(t *testing.T) {
	until := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	e := Entry{
		ID: "chg_1", Time: until, By: "ops", Action: KeyRotated, Target: "k", Team: "search", Reason: "why", From: json.RawMessage("1"),
		Key: &Key{ID: "k", Team: "search", SHA256: "aa", Former: []Former{{"bb", until}}, Models: []string{}, ExpiresAt: &until, Version: 7},
	}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var got Entry
	if err := json.Unmarshal(text, &got); err != nil || got.Key == nil || got.Key.Former[0] != e.Key.Former[0] || got.Key.Version != 7 || got.Key.Models == nil {
		t.Errorf("%v: %+v", err, got)
	}
}
