package budget

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// docs/limits.md says which test proves each row of the specification. Here it
// is compared with the tests that there are.
func TestEveryRowOfTheSpecificationIsNamedInATest(t *testing.T) {
	names := testNames(t)
	page, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	proven := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([ST]\d+) \|[^|]*\|(.*)\|$`).FindAllStringSubmatch(string(page), -1) {
		proven[row[1]] = true
		own := false
		for _, test := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1) {
			if !slices.Contains(names, test[1]) {
				t.Errorf("%s: there is no test %q", row[1], test[1])
			}
			own = own || isNamedFor(test[1], row[1])
		}
		if !own {
			t.Errorf("%s: none of its tests has the number in its name", row[1])
		}
	}
	for n := 1; n <= 42; n++ {
		row := "S" + strconv.Itoa(n)
		if absent := []int{12, 15, 24, 41}; !slices.Contains(absent, n) && !proven[row] {
			t.Errorf("docs/limits.md does not have %s", row)
		}
	}
	for n := 1; n <= 7; n++ {
		if row := "T" + strconv.Itoa(n); !proven[row] {
			t.Errorf("docs/limits.md does not have %s", row)
		}
	}
	for _, test := range regexp.MustCompile("`(Test[^`]+)`").FindAllStringSubmatch(string(page), -1) {
		if !slices.Contains(names, test[1]) {
			t.Errorf("docs/limits.md names %s, which there is not", test[1])
		}
	}
	for _, name := range names {
		if row := regexp.MustCompile(`^(?:Test)?(S\d+)\b`).FindStringSubmatch(name); row != nil && !proven[row[1]] {
			t.Errorf("%q tests a row that docs/limits.md does not have", name)
		}
	}
}

// isNamedFor reports whether a test's name has a row's number.
func isNamedFor(test, row string) bool {
	return regexp.MustCompile(`(^|Test|_)` + row + `(\D|$)`).MatchString(test)
}

// testNames are the names of all tests, and the cases that are named in
// sentences.
func testNames(t *testing.T) []string {
	t.Helper()
	var names []string
	found := regexp.MustCompile(`func (Test\w+)\(|"([ST]\d+ [^"\n]*)"`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "budgettest") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range found.FindAllStringSubmatch(string(source), -1) {
			names = append(names, m[1]+m[2])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
