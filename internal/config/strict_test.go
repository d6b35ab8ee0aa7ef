package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exampleTree is the commented example, with all that it names put in.
func exampleTree(t *testing.T) *node {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(configsDir, "llmgw.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	root, problems := readTree("f", src)
	if root == nil {
		t.Fatal(problems)
	}
	l := Lookups{Env: fullEnv, File: func(string) ([]byte, error) { return []byte("x"), nil }}
	if problems := l.expandAll(root); len(problems) > 0 {
		t.Fatal(problems)
	}
	return root
}

// problemsOfTree reads a tree as a configuration.
func problemsOfTree(root *node) []Problem {
	d := newDecoder(0)
	d.config(root)
	d.check()
	return d.problems
}

// hasProblem tells whether there is a problem at n that begins with what.
func hasProblem(problems []Problem, n *node, what string) bool {
	for _, p := range problems {
		if p.Line == n.line && p.Column == n.column && strings.HasPrefix(p.What, what) {
			return true
		}
	}
	return false
}

// TestNothingInAFileGoesUnread spoils the example in every place, one at a
// time: a key that nobody reads could not be spoilt.
func TestNothingInAFileGoesUnread(t *testing.T) {
	root := exampleTree(t)
	if problems := problemsOfTree(root); len(problems) > 0 {
		t.Fatal(Errors(problems))
	}
	spoilt := 0
	walk(root, func(n *node) {
		right := *n
		for _, wrong := range []node{
			{kind: null},
			{kind: scalar, raw: "\x00 no value at all", text: "\x00 no value at all"},
			{kind: list, items: []*node{{kind: null}}},
			{kind: object, entries: []entry{{&node{kind: scalar, raw: "stranger", text: "stranger"}, &node{}}}},
		} {
			// A text that may be anything takes any, but for it no kind is right.
			if wrong.kind == scalar && anything(root, n) || wrong.kind == object && freelyNamed(root, n) {
				continue
			}
			wrong.line, wrong.column = right.line, right.column
			for _, item := range wrong.items {
				item.line, item.column = right.line, right.column
			}
			for _, e := range wrong.entries {
				e.key.line, e.key.column = right.line, right.column
			}
			*n = wrong
			spoilt++
			if problems := problemsOfTree(root); !hasProblem(problems, n, "") {
				t.Errorf("%d:%d: %s in the place of %s goes unnoticed; got %v", right.line, right.column, wrong.kind, right.kind, problems)
			}
		}
		*n = right
	})
	if spoilt < 500 {
		t.Errorf("spoilt %d places, want all", spoilt)
	}
}

// anything tells whether n is the value of a key that takes any text.
func anything(root, n *node) bool {
	found := false
	walk(root, func(o *node) {
		for _, e := range o.entries {
			switch e.key.text {
			case "cert_file", "key_file", "username", "password":
				found = found || e.value == n
			}
		}
	})
	return found
}

func TestEveryKeyIsRefusedWhenRepeatedOrMisspelt(t *testing.T) {
	root := exampleTree(t)
	count := 0
	walk(root, func(o *node) {
		for i, e := range o.entries {
			count++
			twice := &node{kind: scalar, line: 1000, column: 7, raw: e.key.raw, text: e.key.text}
			o.entries = append(o.entries, entry{twice, e.value})
			if problems := problemsOfTree(root); !hasProblem(problems, twice, "the key ") {
				t.Errorf("the key %q at line %d can be repeated", e.key.raw, e.key.line)
			}
			o.entries = o.entries[:len(o.entries)-1]

			misspelt := &node{kind: scalar, line: e.key.line, column: e.key.column, raw: e.key.raw + "x", text: e.key.text + "x"}
			o.entries[i].key = misspelt
			if problems := problemsOfTree(root); !hasProblem(problems, misspelt, "unknown key ") && !freelyNamed(root, o) {
				t.Errorf("the key %q at line %d can be misspelt", e.key.raw, e.key.line)
			}
			o.entries[i].key = e.key
		}
	})
	if count < 100 {
		t.Errorf("tried %d keys, want all", count)
	}
}

// freelyNamed reports whether n is an object whose keys are people's own: the
// entries of a descriptor.
func freelyNamed(root, n *node) (free bool) {
	walk(root, func(o *node) {
		for _, e := range o.entries {
			free = free || e.value == n && e.key.text == "match"
		}
	})
	return free
}
