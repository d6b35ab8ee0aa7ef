package budget

import "testing"

func TestAnAmountIsWrittenForPeople(t *testing.T) {
	for _, s := range []struct {
		unit Unit
		n    int64
		want string
	}{
		{Tokens, 0, "0"}, {Tokens, 999, "999"}, {Tokens, 1000, "1,000"}, {Requests, 1234567, "1,234,567"},
		{USD, 0, "$0.00"}, {USD, 500_000_000, "$500.00"}, {USD, 1_234_500_000, "$1,234.50"}, {USD, 900_001, "$0.900001"},
	} {
		if got := s.unit.Text(s.n); got != s.want {
			t.Errorf("%d %s: got %s, want %s", s.n, s.unit, got, s.want)
		}
	}
	if got := USD.Number(2_500_000); got != 2.5 {
		t.Errorf("got %v dollars, want 2.5", got)
	}
	if got := Tokens.Number(7); got != 7 {
		t.Errorf("got %v tokens, want 7", got)
	}
}
