package budget

import (
	"fmt"
	"testing"
)

func TestAMarginCanBeCounted(t *testing.T) {
	for _, s := range []struct {
		what               string
		used, before, want []int64
	}{
		{"nothing was told before", []int64{5, 7}, nil, []int64{5, 7}},
		{"as much again", []int64{5, 7}, []int64{2, 7}, []int64{8, 7}},
		{"no less than was used", []int64{5}, []int64{9}, []int64{5}},
		{"no more than can be counted", []int64{MaxExact}, []int64{1}, []int64{MaxExact}},
		{"lines that were not told of have none", []int64{5, 7}, []int64{2}, []int64{8, 7}},
	} {
		if got := WithMargin(s.used, s.before); fmt.Sprint(got) != fmt.Sprint(s.want) {
			t.Errorf("%s: got %v, want %v", s.what, got, s.want)
		}
	}
}
