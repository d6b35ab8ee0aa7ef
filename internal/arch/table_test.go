package arch

import (
	"bufio"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTheTableOfPackagesIsTheCode(t *testing.T) {
	documented, exist := table(t), directories(t)
	for _, pkg := range exist {
		if !slices.Contains(documented, pkg) {
			t.Errorf("docs/architecture.md does not list %s", pkg)
		}
	}
	for i, pkg := range documented {
		if !slices.Contains(exist, pkg) {
			t.Errorf("docs/architecture.md lists %s, which does not exist", pkg)
		}
		if slices.Contains(documented[:i], pkg) {
			t.Errorf("docs/architecture.md lists %s twice", pkg)
		}
	}
}

func TestARowMayNameSeveralPackages(t *testing.T) {
	for _, s := range []struct {
		row  string
		want []string
	}{
		{"| `internal/app` | the wiring |", []string{"internal/app"}},
		{"| `internal/{a,b/c}` | two |", []string{"internal/a", "internal/b/c"}},
		{"| package | is |", nil},
		{"| --- | --- |", nil},
		{"`internal/app` in a sentence", nil},
	} {
		if got := named(s.row); !slices.Equal(got, s.want) {
			t.Errorf("%s: got %v, want %v", s.row, got, s.want)
		}
	}
}

// table reads the packages that docs/architecture.md lists below its heading.
func table(t *testing.T) []string {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var listed []string
	below := false
	for s := bufio.NewScanner(f); s.Scan(); {
		if heading, ok := strings.CutPrefix(s.Text(), "## "); ok {
			below = heading == "Packages"
		}
		if below {
			listed = append(listed, named(s.Text())...)
		}
	}
	if len(listed) == 0 {
		t.Fatal("docs/architecture.md has no table of packages")
	}
	return listed
}

// named is what the first cell of a row names: a package, or several that are
// written as a shell would expand them, such as dialect/{openai,azure}.
func named(row string) []string {
	cell, ok := strings.CutPrefix(row, "| `")
	if !ok {
		return nil
	}
	cell, _, _ = strings.Cut(cell, "`")
	before, inner, several := strings.Cut(cell, "{")
	if !several {
		return []string{cell}
	}
	var all []string
	for _, name := range strings.Split(strings.TrimSuffix(inner, "}"), ",") {
		all = append(all, before+name)
	}
	return all
}

// directories lists where Go files are, but for the other module and go
// generate's programs.
func directories(t *testing.T) []string {
	t.Helper()
	root := filepath.Join("..", "..")
	var found []string
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != root && (d.Name() == "e2e" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if strings.HasSuffix(file, ".go") && filepath.Dir(file) != root {
			rel, err := filepath.Rel(root, filepath.Dir(file))
			if err != nil {
				return err
			}
			found = append(found, path.Clean(filepath.ToSlash(rel)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return slices.Compact(found)
}
