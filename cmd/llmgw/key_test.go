package main

import (
	"strings"
	"testing"

	"llmgw/internal/config"
)

func TestAKeysLineIsOneThatTheConfigurationTakes(t *testing.T) {
	for _, s := range []struct{ what, team, id string }{
		{"a plain team", "search", ""},
		{"a team with all that a name may have", "Data:Science@eu+1.x_y", ""},
		{"the longest team", strings.Repeat("t", config.LongestName), ""},
		{"an id that YAML reserves", "search", "@search"},
		{"an id that YAML takes for nothing", "search", "null"},
		{"an id that YAML takes for a key", "search", "a:"},
		{"an id of digits", "search", "0123"},
	} {
		var out, errs strings.Builder
		args := []string{"key", "new", "--team", s.team}
		if s.id != "" {
			args = append(args, "--id", s.id)
		}
		if code := run(args, streams{out: &out, err: &errs}); code != exitOK {
			t.Errorf("%s: got %d: %s", s.what, code, errs.String())
			continue
		}
		_, line, _ := strings.Cut(out.String(), "\n")
		c, err := config.Parse("keys.yaml", []byte("teams:\n  - name: \""+s.team+"\"\n    keys:\n      "+line), config.Lookups{})
		if err != nil {
			t.Errorf("%s: %v", s.what, err)
			continue
		}
		if got := c.Teams[0].Keys[0].ID; s.id != "" && got != s.id || s.id == "" && !strings.HasPrefix(got, s.team[:min(len(s.team), 100)]) {
			t.Errorf("%s: the configuration has the id %q", s.what, got)
		}
	}
}

func TestAKeyForNoTeamThatCanBeIsRefused(t *testing.T) {
	for _, args := range [][]string{{"--team", "data science"}, {"--team", "search", "--id", "a b"}, {"--team", "é"}} {
		var out, errs strings.Builder
		if code := run(append([]string{"key", "new"}, args...), streams{out: &out, err: &errs}); code != exitProblem || out.String() != "" || !strings.Contains(errs.String(), "is no name") {
			t.Errorf("%v: got %d, %q, %q", args, code, out.String(), errs.String())
		}
	}
}
