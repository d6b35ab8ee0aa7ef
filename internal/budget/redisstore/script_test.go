package redisstore

import (
	"strings"
	"testing"
)

func TestConstantsAreWrittenWhereTheyAreUsed(t *testing.T) {
	for _, s := range []struct{ what, source, want string }{
		{"a number", "local KEEP = 60000\nreturn KEEP + 1", "\nreturn (60000) + 1"},
		{"several, with a reason behind", "local OPEN, SETTLED = 1, 2 -- of a record\nreturn {OPEN, SETTLED}", "\nreturn {(1), (2)}"},
		{"a product", "local DAY = 24 * 3600 * 1000\nreturn 2 * DAY", "\nreturn 2 * (24 * 3600 * 1000)"},
		{"text", "local HEAD = '<BBd'\nreturn pack(HEAD, 1)", "\nreturn pack(('<BBd'), 1)"},
		{"no part of another name", "local KEY = 1\nreturn KEYS[KEY], MONKEY", "\nreturn KEYS[(1)], MONKEY"},
		{"a local in small letters stays", "local n = 1\nreturn n", "local n = 1\nreturn n"},
		{"one within a function stays", "  local N = 1\n  return N", "  local N = 1\n  return N"},
	} {
		if got := inline(s.source); got != s.want {
			t.Errorf("%s: got %q, want %q", s.what, got, s.want)
		}
	}
}

func TestNoScriptMakesConstantsAtEachCall(t *testing.T) {
	p := newScripts()
	for name, s := range map[string]script{
		"reserve": p.reserve, "settle": p.settle, "report": p.report, "read": p.read, "correct": p.correct, "beat": p.beat,
		"fence": p.fence, "reclaim": p.reclaim, "list": p.list,
	} {
		for _, line := range strings.Split(s.text, "\n") {
			if constants.MatchString(line) {
				t.Errorf("%s.lua: got %q at run time", name, line)
			}
		}
	}
}
