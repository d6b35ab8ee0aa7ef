package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"llmgw/internal/dialect/registry"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks are the README's examples in one language.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	var found []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(readme(t), -1) {
		found = append(found, m[1])
	}
	if len(found) == 0 {
		t.Fatalf("the README has no example in %s", language)
	}
	return found
}

func TestTheReadmesConfigurationsAreGood(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-1")
	t.Setenv("REDIS_PASSWORD", "secret")
	t.Setenv("DATABASE_URL", "postgres://llmgw@127.0.0.1/llmgw")
	examples := blocks(t, "yaml")
	whole := strings.Replace(examples[0], "sha256: 1f0c2a…", "sha256: "+strings.Repeat("1f0c2a90", 8), 1)
	for i, text := range append([]string{whole}, withAll(whole, examples[1:])...) {
		file := filepath.Join(t.TempDir(), fmt.Sprintf("example%d.yaml", i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := called(t, "check", file)
		// With Redis alone the books are in pieces, and check says so.
		if code != exitOK || strings.Count(errs, "\n") != strings.Count(errs, "keep books in pieces") || !strings.Contains(out, "team/search/monthly") {
			t.Errorf("example %d: got code %d, %s%s", i, code, out, errs)
		}
	}
}

// withAll adds each of parts to the whole configuration.
func withAll(whole string, parts []string) []string {
	all := make([]string, len(parts))
	for i, part := range parts {
		all[i] = whole + part
	}
	return all
}

func TestTheReadmesCommandsExist(t *testing.T) {
	known := map[string]bool{}
	for _, c := range commands() {
		known[c.name] = true
	}
	named := regexp.MustCompile("(?m)(?:`|^\\$ |^)llmgw ([a-z]+)").FindAllStringSubmatch(readme(t), -1)
	if len(named) < 5 {
		t.Fatalf("found only %d commands in the README", len(named))
	}
	for _, m := range named {
		if !known[m[1]] {
			t.Errorf("the README calls llmgw %s, which does not exist", m[1])
		}
	}
}

func TestTheDocumentsLinksLeadSomewhere(t *testing.T) {
	root := filepath.Join("..", "..")
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "bench/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`) // of this repository
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), string(m[1]))); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

func TestTheTableOfDialectsTellsEveryEndpoint(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "dialects.md"))
	if err != nil {
		t.Fatal(err)
	}
	table := strings.Join(regexp.MustCompile(`(?m)^\|.*$`).FindAllString(string(text), -1), "\n")
	for _, d := range registry.Dialects() {
		if !strings.Contains(table, "`"+d.Name()+"`") {
			t.Errorf("docs/dialects.md has no row of %s", d.Name())
		}
		for _, e := range d.Endpoints() {
			// Rows shorten paths; a last segment that is a parameter is told in its own way.
			last := e.Pattern[strings.LastIndexByte(e.Pattern, '/'):]
			if !strings.HasPrefix(last, "/:") && !strings.Contains(table, last+"`") && !strings.Contains(table, last+"/") {
				t.Errorf("docs/dialects.md does not tell %s of %s", e.Pattern, d.Name())
			}
		}
	}
}
