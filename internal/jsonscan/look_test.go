package jsonscan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestALookSeesTheKeysOfTheValuesThatItLooksInto(t *testing.T) {
	for _, s := range []struct{ text, want string }{
		{`{}`, ""},
		{`{"a":1}`, `0"a"`},
		{`{"into":{"a":1,"into":{"b":2}},"c":3}`, `0"into" 1"a" 1"into" 2"b" 0"c"`},
		{`{"no":{"a":{"into":{"b":1}}},"c":[{"d":1}]}`, `0"no" 0"c"`},
		{`{"into":[1,{"a":1},[{"b":[{"c":1}]},{"into":{}}],"x"],"d":1}`, `0"into" 2"a" 3"b" 3"into" 0"d"`},
		{`{"into":[{"no":{"x":1},"into":[{"y":1}]},{"z":1}]}`, `0"into" 2"no" 2"into" 4"y" 2"z"`},
		{` { "into" : [ { "no" : [ { "x" : 1 } ] , "a" : { } } ] } `, `0"into" 2"no" 2"a"`},
		{`{"into":"text","into":1}`, `0"into" 0"into"`},
	} {
		var seen []string
		m := LookAt([]byte(s.text), Start([]byte(s.text)), func(key []byte, depth int) bool {
			seen = append(seen, fmt.Sprint(depth, string(key)))
			return string(key) == `"into"`
		})
		values := 0
		for m.Next() {
			values++
		}
		if got := strings.Join(seen, " "); got != s.want || m.Err() != nil || m.End() != len(strings.TrimRight(s.text, " ")) {
			t.Errorf("%s: saw %s, %v, ended at %d; want %s", s.text, got, m.Err(), m.End(), s.want)
		}
	}
}

// TestALookChangesNothing compares a walk that looks into some values with one
// that looks into none, on texts that are right and texts that are broken.
func TestALookChangesNothing(t *testing.T) {
	texts := slices.Clone(seeds)
	for _, text := range seeds {
		texts = append(texts, `{"x":`+text+`,"xx":[`+text+`,{"x":`+text+`}]}`)
	}
	for _, text := range texts {
		for _, longest := range []int{0, 3, 100} { // of the keys that are looked into
			plain, looking := MembersAt([]byte(text), 0), LookAt([]byte(text), 0, func(key []byte, _ int) bool { return len(key) <= longest })
			for {
				a, b := plain.Next(), looking.Next()
				if a != b || a && (plain.KeySpan() != looking.KeySpan() || plain.Value() != looking.Value()) {
					t.Fatalf("%s: got %v at %v, want %v at %v", text, b, looking.Value(), a, plain.Value())
				}
				if !a {
					break
				}
			}
			if fmt.Sprint(plain.Err()) != fmt.Sprint(looking.Err()) || plain.Err() == nil && plain.End() != looking.End() {
				t.Fatalf("%s: ended with %v at %d, want %v at %d", text, looking.Err(), looking.End(), plain.Err(), plain.End())
			}
		}
	}
}
