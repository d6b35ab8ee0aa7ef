package ledger

import (
	"fmt"
	"reflect"
	"strconv"
	"testing"
)

// What is written as fields is read back as it was, whatever the names.
func FuzzFieldsAreReadBackAsTheyWere(f *testing.F) {
	f.Add("search", "gpt-4o", "team/search/tpm", int64(3), int64(-1))
	f.Add("", "", "", int64(0), int64(1))
	f.Add("a/b", "%2f", "u/x/y/input", int64(1)<<62, int64(1))
	f.Add("\x00w", "\xff", "é%", int64(-5), int64(0))
	f.Fuzz(func(t *testing.T, team, model, limit string, input, requests int64) {
		want := newSum()
		*want.at(pair{team, model}) = totals{requests: requests, input: input, reserved: input}
		want.refusals[limit] = requests
		got := newSum()
		for _, deltas := range want.deltas() {
			got.read(asTexts(deltas))
		}
		if requests == 0 { // what is 0 is not written
			delete(want.refusals, limit)
			if input == 0 {
				delete(want.spent, pair{team, model})
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// A store may hold fields of a later version, or by another hand.
func FuzzAnyFieldCanBeRead(f *testing.F) {
	for _, field := range []string{"", "u", "u/a/b/input", "u/a/b/unknown", "u/%zz/b/input", "r/x", "r/%", "x/y", "u/a/b/input/more", "\x00w"} {
		f.Add(field, "12")
	}
	f.Add("u/a/b/input", "text")
	f.Fuzz(func(t *testing.T, field, value string) {
		s := newSum()
		s.read(map[string]string{field: value, "u/a/b/requests": "1"})
		if got := s.at(pair{"a", "b"}).requests; got != 1 && field != "u/a/b/requests" && field[0] != 'u' {
			t.Errorf("%q: %q: a field beside it is %d, want 1", field, value, got)
		}
	})
}

func TestOneBatchIsBounded(t *testing.T) {
	s := newSum()
	for i := range 1000 {
		*s.at(pair{"search", fmt.Sprint(i)}) = totals{requests: 1, input: 2, output: 3}
	}
	got := newSum()
	for _, deltas := range s.deltas() {
		if len(deltas) > maxDeltas {
			t.Errorf("a batch has %d fields, want at most %d", len(deltas), maxDeltas)
		}
		got.read(asTexts(deltas))
	}
	if !reflect.DeepEqual(got, s) {
		t.Error("something was lost between batches")
	}
}

func asTexts(deltas map[string]int64) map[string]string {
	texts := make(map[string]string, len(deltas))
	for field, n := range deltas {
		texts[field] = strconv.FormatInt(n, 10)
	}
	return texts
}
