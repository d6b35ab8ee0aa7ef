package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestBrokenYAMLIsToldWithItsPlace(t *testing.T) {
	for _, s := range []struct{ what, src, want string }{
		{"two colons", "a: b: c\n", "1:5: YAML: mapping values are not allowed in this context"},
		{"a key in a list", "a:\n  - x\n b: 1\n", "3:2: YAML: "},
		{"a bracket never closed", "a: [1, 2\nb: 3\n", "2:2: YAML: did not find expected ',' or ']' (while parsing a flow sequence that begins at 1:4)"},
		{"a quote never closed", "a: \"abc\nb: 3", "2:5: YAML: found unexpected end of stream (while scanning a quoted scalar that begins at 1:4)"},
		{"a tab for spaces", "a:\n\tb: 1\n", "2:1: YAML: "},
		{"a list after a key", "- a\nb: 1\n", "2:1: YAML: "},
		{"an unknown escape", "a: \"\\q\"\n", "1:5: YAML: found unknown escape character"},
		{"a stray bracket", "a: }\n", "1:4: YAML: did not find expected node content"},
		{"too much indentation", "server:\n  listen: a\n   admin: b\n", "3:9: YAML: mapping values are not allowed in this context"},
		{"an alias of nothing", "a: *x\n", "1:4: YAML: unknown anchor"},

		{"nothing", "", "1:1: the file is empty"},
		{"a comment alone", "# nothing\n\n", "1:1: the file is empty"},
		{"a second document", "server: {}\n---\nstore: {}\n", "2:1: YAML: a second document"},
		{"an anchor", "server: &a {}\n", "1:9: anchors and aliases are not supported"},
		{"an alias", "a: &a [1]\nb: *a\n", "1:4: anchors and aliases are not supported\n2:4: anchors and aliases are not supported"},
		{"a merge key", "a: {<<: {b: 1}}\n", "1:5: merge keys are not supported"},
		{"a tag", "a: !!str 1\n", "1:4: tags are not supported"},
		{"a key with an anchor", "a: {&k b: 1}\n", "1:5: a key must be a plain word"},
		{"a key with a tag", "a: {!!str b: 1}\n", "1:5: a key must be a plain word"},
		{"a list as a key", "? [a]\n: 1\n", "1:3: a key must be a plain word"},

		{"a byte that is no UTF-8", "a: 1\nä: \xff\n", "2:4: this byte is no UTF-8"},
		{"a control character", "a: \x01\n", "1:4: the control character U+0001 does not belong here"},
		{"a carriage return within a line", "a: 1\rb: 2\n", "1:5: the control character U+000D does not belong here"},
		{"a line break that only some readers see", "a: \u2028\n", "1:4: the control character U+2028 does not belong here"},
	} {
		t.Run(s.what, func(t *testing.T) {
			root, problems := readTree("f", []byte(s.src))
			if root != nil {
				t.Error("got a tree, want none")
			}
			checkProblems(t, problems, s.want)
		})
	}
}

func TestNoFileCanTakeLongOrNestDeeply(t *testing.T) {
	laughs := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'j'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), ", "))
	}
	for _, s := range []struct{ what, src, want string }{
		{"a billion laughs", laughs, "1:4: anchors and aliases are not supported"},
		{"brackets", strings.Repeat(strings.Repeat("[", 8000)+"\n", 100), "2:2001: YAML: exceeded max depth"},
		{"braces", strings.Repeat("{a: ", 2000) + "\n", "2:1: YAML: did not find expected node content"},
		{"dashes", strings.Repeat("- ", 4000) + "\n", "1:67: nested deeper than 32"},
		{"questions", strings.Repeat("? ", 4000) + "\n", "1:"},
		{"a deep block", deepBlock(60), "34:34: nested deeper than 32"},
		{"a long line", "a: " + strings.Repeat("x", maxLineBytes), "1:1: the line has more than 1048576 bytes"},
		{"a large file", strings.Repeat("#\n", maxFileBytes), "1:1: the file has more than 16777216 bytes"},
	} {
		t.Run(s.what, func(t *testing.T) {
			root, problems := readTree("f", []byte(s.src))
			if root != nil || len(problems) == 0 {
				t.Fatal("got a tree, want none")
			}
			if first := fmt.Sprintf("%d:%d: %s", problems[0].Line, problems[0].Column, problems[0].What); !strings.HasPrefix(first, s.want) {
				t.Errorf("got %s, want %s…", first, s.want)
			}
		})
	}
}

// deepBlock is one key under another.
func deepBlock(depth int) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestTextIsWhatTheFileHas(t *testing.T) {
	root, problems := readTree("f", []byte("\ufeffa: [1_000, 0x10, no, 2024-10-21, 1.50, host:80, 'it''s', \"t\\tab\", .inf]\r\nb: |\r\n  two\r\n  lines\r\n"))
	if root == nil {
		t.Fatal(problems)
	}
	want := []string{"1_000", "0x10", "no", "2024-10-21", "1.50", "host:80", "it's", "t\tab", ".inf"}
	for i, item := range root.value("a").items {
		if item.text != want[i] {
			t.Errorf("got %q, want %q", item.text, want[i])
		}
	}
	if got, want := root.value("b").text, "two\nlines\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestColumnsCountCharacters(t *testing.T) {
	got := problemsOf(t, `server: {admin_token: "ß€😀", listen: 1}`, Lookups{})
	checkProblems(t, got, "1:23: this value has a space\n1:38: \"1\" is not an address")
}

func TestHostsWithPortsAreTextWhereverTheyStand(t *testing.T) {
	c := mustParse(t, "store: {redis: {addrs: [a:1, redis-0:6379]}}")
	if got := c.Store.Redis.Addrs; len(got) != 2 || got[0] != "a:1" || got[1] != "redis-0:6379" {
		t.Errorf("got %q", got)
	}
}

func TestTenThousandKeysAreNoLargeFile(t *testing.T) {
	var b strings.Builder
	b.WriteString("teams:\n  - name: everyone\n    keys:\n")
	for i := range 10_000 {
		fmt.Fprintf(&b, "      - {id: key-%d, sha256: %064x, limits: [{name: tpm, unit: tokens, amount: 40k, per: minute}]}\n", i, i)
	}
	c, err := Parse("keys.yaml", []byte(b.String()), Lookups{})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(c.Teams[0].Keys); got != 10_000 {
		t.Errorf("got %d keys", got)
	}
}

func TestAFileOfJSONInOneLineIsAConfiguration(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, `, {"name": "t%d", "keys": [{"id": "k%d", "sha256": "%064x"}]}`, i, i, i)
	}
	c, err := Parse("llmgw.json", []byte(`{"teams": [`+strings.TrimPrefix(b.String(), ", ")+`]}`), Lookups{})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(c.Teams); got != 1000 {
		t.Errorf("got %d teams", got)
	}
}
