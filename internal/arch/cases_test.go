package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every id in a test's name is explained in docs/cases.md, and every id of that
// page has a test.
func TestEveryCaseInATestsNameIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	var explained []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-J]\d+) \|`).FindAllStringSubmatch(string(page), -1) {
		explained = append(explained, row[1])
	}
	tested := map[string]string{}
	for _, name := range testNames(t) {
		for _, id := range caseIDs(name) {
			tested[id] = name
		}
	}
	for id, name := range tested {
		if !slices.Contains(explained, id) {
			t.Errorf("%s carries %s, which docs/cases.md does not explain", name, id)
		}
	}
	for _, id := range explained {
		if tested[id] == "" {
			t.Errorf("docs/cases.md explains %s, which no test carries", id)
		}
	}
}

// caseIDs returns the ids of A to J that a test's name begins with; ids of S
// and T may stand between them.
func caseIDs(name string) []string {
	prefix := regexp.MustCompile(`^Test((?:_?[A-JST]\d+)+)`).FindString(name)
	return regexp.MustCompile(`[A-J]\d+`).FindAllString(prefix, -1)
}

// testNames returns the names of all test functions of the repository.
func testNames(t *testing.T) []string {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	var names []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(src), -1) {
			names = append(names, m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
