package proxy

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"llmgw/internal/budget"
)

func perUser() *budget.Limit {
	l := teamTPM()
	l.Name, l.Scope, l.Period = "per-user", budget.User, budget.Hour
	return l
}

func TestUsersBeyondTheBoundShareOneCounter(t *testing.T) {
	var log strings.Builder
	v := newValues(slog.New(slog.NewTextHandler(&log, nil)), 3)
	l, now := perUser(), time.Unix(0, 0)
	for i := range 3 {
		if user := fmt.Sprint("u", i); v.admit(l, user, now) != user {
			t.Errorf("%s has no counter of its own", user)
		}
	}
	for i := range 1000 {
		if got := v.admit(l, fmt.Sprint("made-up-", i), now); got != others {
			t.Fatalf("made-up user %d: got counter %q, want that of the others", i, got)
		}
	}
	if got := v.admit(l, "u1", now); got != "u1" {
		t.Errorf("a user that was there before: got counter %q, want its own", got)
	}
	other := perUser()
	other.Name = "another"
	if got := v.admit(other, "made-up-1", now); got != "made-up-1" {
		t.Errorf("under another limit: got counter %q, want its own", got)
	}
	if got := strings.Count(log.String(), "share one"); got != 1 {
		t.Errorf("the log tells it %d times, want once", got)
	}
}

func TestAUserWhoStaysAwayMakesRoom(t *testing.T) {
	v := newValues(slog.New(slog.DiscardHandler), 2)
	l, now := perUser(), time.Unix(0, 0)
	v.admit(l, "comes", now)
	v.admit(l, "went", now)
	for _, s := range []struct {
		what  string
		after time.Duration
		user  string
		want  string
	}{
		{"an hour later its counter may be there yet", time.Hour, "new", others},
		{"who comes keeps it", 0, "comes", "comes"},
		{"two hours later it has expired", time.Hour, "new", "new"},
		{"and who came has it still", 0, "comes", "comes"},
		{"no more than two", 0, "went", others},
		{"after a long silence all begins anew", 24 * time.Hour, "went", "went"},
	} {
		now = now.Add(s.after)
		if got := v.admit(l, s.user, now); got != s.want {
			t.Fatalf("%s: %s got counter %q, want %q", s.what, s.user, got, s.want)
		}
	}
}

// Whoever looks is told the counter that a request would meet, and takes none.
func TestLookingTellsWhatARequestWouldMeetAndChangesNothing(t *testing.T) {
	v, l, now := newValues(slog.New(slog.DiscardHandler), 2), perUser(), time.Unix(0, 0)
	for i := range 10 {
		if user := fmt.Sprint("nobody-yet-", i); v.meets(l, user, now) != user {
			t.Errorf("%s: there is room, and looking takes none", user)
		}
	}
	v.admit(l, "a", now)
	for _, s := range []struct {
		after time.Duration
		users []string
	}{
		{0, []string{"a", "b", "c"}}, {0, []string{"b", "c", "a"}}, {time.Hour, []string{"c", "a", "b"}}, {time.Hour, []string{"d", "a", "c"}}, {24 * time.Hour, []string{"e", "a"}},
	} {
		now = now.Add(s.after)
		for _, user := range s.users {
			want := v.meets(l, user, now)
			if got := v.admit(l, user, now); got != want {
				t.Errorf("%s after %v: got counter %q, and was told %q", user, s.after, got, want)
			}
		}
	}
	if got := v.meets(perUser(), "someone", now); got != others {
		t.Errorf("got counter %q when none is left, want that of the others", got)
	}
}

func TestOnlyCountersOfUsersAndAddressesAreBounded(t *testing.T) {
	v := newValues(slog.New(slog.DiscardHandler), 0)
	ip, model := perUser(), perUser()
	ip.Scope, model.Scope = budget.IP, budget.Model
	lines := []budget.Line{{Limit: teamTPM()}, {Limit: perUser(), Value: "u"}, {Limit: ip, Value: "10.0.0.1"}, {Limit: model, Value: "gpt"}}
	v.bound(lines)
	for i, want := range []string{"", others, others, "gpt"} {
		if lines[i].Value != want {
			t.Errorf("line %d: got counter %q, want %q", i, lines[i].Value, want)
		}
	}
}

func BenchmarkAdmit(b *testing.B) {
	v := newValues(slog.New(slog.DiscardHandler), maxValues)
	lines := []budget.Line{{Limit: perUser(), Value: "a user"}}
	b.ReportAllocs()
	for b.Loop() {
		v.bound(lines)
	}
}
