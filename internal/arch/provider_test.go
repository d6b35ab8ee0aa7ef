package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"llmgw/internal/dialect/registry"
)

// unrelated are literals that are a dialect's or flavor's name by chance, by
// file, with the reason. A path that ends with / stands for all below it.
var unrelated = []struct {
	path, reason string
	words        []string // nil: every name
}{
	{"internal/dialect/", "the home of these names", nil},
	{"internal/estimate/model.go", "parts of models' names, whoever serves them", []string{"gemini", "deepseek", "mistral"}},
}

// TestOnlyDialectsNameDialects holds every provider's particulars in one home:
// another package reads them from its dialect.Profile, and does not ask which it
// is. What only tests import is free.
func TestOnlyDialectsNameDialects(t *testing.T) {
	names := append(registry.Names(nil), registry.Flavors()...)
	used := make([]bool, len(unrelated))
	for _, l := range literals(t) {
		if !slices.Contains(names, l.text) || matches(helpers, filepath.ToSlash(filepath.Dir(l.file))) {
			continue
		}
		i := slices.IndexFunc(unrelated, func(u struct {
			path, reason string
			words        []string
		}) bool {
			inPath := l.file == u.path || strings.HasSuffix(u.path, "/") && strings.HasPrefix(l.file, u.path)
			return inPath && (u.words == nil || slices.Contains(u.words, l.text))
		})
		if i < 0 {
			t.Errorf("%s:%d names %q: let dialect.Profile or dialect.Flavor say what differs", l.file, l.line, l.text)
			continue
		}
		used[i] = true
	}
	for pkg, imports := range packages(t) {
		for _, imported := range imports {
			if api, ok := strings.CutPrefix(imported, module+"internal/dialect/"); ok && slices.Contains(names, api) &&
				!strings.HasPrefix(pkg, "internal/dialect/") && !matches(helpers, pkg) {
				t.Errorf("%s imports the dialect %s: package registry has what it needs", pkg, api)
			}
		}
	}
	for i, u := range unrelated {
		if !used[i] {
			t.Errorf("%s is excepted, and names none", u.path)
		}
	}
}

type literal struct {
	file, text string
	line       int
}

// literals are the strings of all Go files that are no tests.
func literals(t *testing.T) []literal {
	t.Helper()
	root := filepath.Join("..", "..")
	var found []literal
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && file != root) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, literal{filepath.ToSlash(rel), text, set.Position(lit.Pos()).Line})
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
