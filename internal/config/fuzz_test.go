package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"llmgw/internal/budget"
)

// FuzzParse wants of any text either a whole configuration or problems with
// places that are in the text.
func FuzzParse(f *testing.F) {
	for _, piece := range strings.Split(wholeExample(f), "\n\n") {
		f.Add(piece) // its sections, which a fuzzer works on faster than on the whole
	}
	f.Add("server: {listen: ${X}, drain: {max_time: -1s}}")
	f.Add("limits:\n- {name: a, unit: usd, amount: 0.000001, per: hour, burst: 9007199254}")
	f.Add("a: &a [*a]\n<<: *a")
	f.Add("teams: [{name: a, models: [\"*\"], keys: [{}]}]")
	l := Lookups{Env: fullEnv, File: func(string) ([]byte, error) { return []byte("x"), nil }}
	f.Fuzz(func(t *testing.T, src string) {
		c, err := Parse("f", []byte(src), l)
		if err != nil {
			checkPlaces(t, src, err)
			return
		}
		again, err := Parse("f", []byte(src), l)
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Errorf("a second reading differs: %v", err)
		}
		for _, limit := range allLimits(c) {
			if err := budget.Validate(limit); err != nil {
				t.Errorf("limit %s: %v", limit.By(), err)
			}
		}
		if err := Effective(&strings.Builder{}, c); err != nil {
			t.Error(err)
		}
	})
}

// wholeExample is the commented example without its comments.
func wholeExample(f *testing.F) string {
	src, err := os.ReadFile(filepath.Join(configsDir, "llmgw.example.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	var kept []string
	for _, line := range strings.Split(string(src), "\n") {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

func checkPlaces(t *testing.T, src string, err error) {
	t.Helper()
	problems, ok := errors.AsType[Errors](err)
	if !ok || len(problems) == 0 {
		t.Fatalf("got %T, want Errors: %v", err, err)
	}
	lines := strings.Split(src, "\n")
	for _, p := range problems {
		if p.Line < 1 || p.Column < 1 || p.What == "" || p.File != "f" {
			t.Errorf("got %+v", p)
		}
		if p.Line > len(lines)+1 {
			t.Errorf("line %d of %d: %s", p.Line, len(lines), p.What)
			continue
		}
		if p.Line <= len(lines) && utf8.ValidString(src) && p.Column > utf8.RuneCountInString(lines[p.Line-1])+2 {
			t.Errorf("%d:%d is behind the line's end: %s", p.Line, p.Column, p.What)
		}
	}
}

func allLimits(c *Config) []*budget.Limit {
	all := append([]*budget.Limit(nil), c.Limits...)
	for _, m := range c.Models {
		all = append(all, m.Limits...)
	}
	for _, team := range c.Teams {
		all = append(all, team.Limits...)
		for _, k := range team.Keys {
			all = append(all, k.Limits...)
		}
	}
	return all
}
