package spelling

import (
	"strings"
	"testing"
)

func TestTheNearestNameIsFound(t *testing.T) {
	names := []string{"tokens", "requests", "usd", "Concurrency"}
	for _, s := range []struct {
		word string
		most int
		want string
	}{
		{"tokens", 0, "tokens"},
		{"TOKENS", 0, "tokens"},
		{"token", 1, "tokens"},
		{"tokesn", 1, "tokens"}, // two letters that changed places
		{"tokes", 0, ""},
		{"requst", 2, "requests"},
		{"requst", 1, ""},
		{"concurency", 1, "Concurrency"},
		{strings.Repeat("tokens", 11), 63, ""},
		{"", 2, ""},
	} {
		if got, ok := Nearest(s.word, names, s.most); got != s.want || ok != (s.want != "") {
			t.Errorf("%q within %d: got %q, want %q", s.word, s.most, got, s.want)
		}
	}
}
