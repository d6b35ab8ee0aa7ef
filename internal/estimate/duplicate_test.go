package estimate

import (
	"fmt"
	"strings"
	"testing"

	"llmgw/internal/jsonscan"
)

// shown returns the values of an object's members that nothing hides.
func shown(raw string) string {
	var names nameSet
	for m := jsonscan.MembersAt([]byte(raw), 0); m.Next(); {
		names.add(m.Key())
	}
	last := names.last([]byte(raw))
	var values []string
	for m := jsonscan.MembersAt([]byte(raw), 0); m.Next(); {
		if !last.hides(&m) {
			values = append(values, string(m.Bytes()))
		}
	}
	return strings.Join(values, " ")
}

func TestTheLastMemberOfANameIsTheOneThatCounts(t *testing.T) {
	for raw, want := range map[string]string{
		`{}`: "", `[]`: "", `{"a":1}`: "1", `{"a":1,"b":2}`: "1 2", `{"a":1,"a":2}`: "2", `{"a":1,"b":2,"a":3,"b":4,"a":5}`: "4 5",
		`{"\u0061":1,"a":2}`: "2", `{"A":1,"a":2}`: "1 2", `{"a":{"a":1},"a":[]}`: "[]",
	} {
		if got := shown(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

func TestOfVeryManyMembersAllCount(t *testing.T) {
	for n, want := range map[int]int{mostNames: 1, mostNames + 1: mostNames + 1} {
		if got := len(strings.Fields(shown("{" + strings.Repeat(`"a":1,`, n-1) + `"a":1}`))); got != want {
			t.Errorf("%d members: %d count, want %d", n, got, want)
		}
	}
}

func TestManyMembersHideNoneOfAnotherName(t *testing.T) {
	var members, values []string
	for i := range mostNames / 2 {
		members = append(members, fmt.Sprintf(`"name%d":%d`, i, i))
		values = append(values, fmt.Sprint(i))
	}
	if got := shown("{" + strings.Join(members, ",") + "}"); got != strings.Join(values, " ") {
		t.Errorf("got %s", got)
	}
}
