package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "llmgw/"

// layers are the packages from the lowest up: a package imports lower layers
// only. What ends in /... stands for the package and all below it.
var layers = [][]string{
	{"internal/tokens", "internal/fault", "internal/jsonscan", "internal/concurrency", "internal/spelling", "internal/parting", "internal/database", "configs"},
	{"internal/telemetry", "internal/dialect/...", "internal/budget"},
	{"internal/budget/memstore", "internal/budget/redisstore", "internal/shared", "internal/changes"},
	{"internal/fleet/...", "internal/budget/failover", "internal/admission"},
	{"internal/tenant", "internal/alerts", "internal/estimate/...", "internal/upstream/...", "internal/books", "internal/budget/lease"},
	{"internal/ledger", "internal/charge"},
	{"internal/proxy", "internal/admin", "internal/ratelimit"},
	{"internal/config"},
	{"internal/fakellm", "internal/sim"},
	{"internal/app"},
	{"cmd/llmgw"},
}

// helpers are packages that only tests import; what they import is free.
var helpers = []string{"internal/proctest", "internal/testenv", "internal/redistest", "internal/pgtest", "internal/gatewaytest", "internal/blackbox", "internal/arch", "internal/budget/budgettest", "internal/changes/changestest", "internal/dialect/dialecttest", "bench/...", "e2e/..."}

// confined are modules that only some packages may import.
var confined = map[string][]string{
	"github.com/redis/go-redis":           {"internal/budget/redisstore", "internal/shared", "internal/parting", "internal/app"},
	"github.com/gin-gonic/gin":            {"internal/proxy", "internal/app"},
	"github.com/prometheus/client_golang": {"internal/telemetry"},
	"go.opentelemetry.io/otel":            {"internal/telemetry"},
	"go.opentelemetry.io/contrib":         {"internal/telemetry"},
	"github.com/pkoukk/tiktoken-go":       {"internal/estimate/bpe"}, // and its loader
	"modernc.org/sqlite":                  {"internal/database"},
	"github.com/jackc/pgx":                {"internal/database"},
	"github.com/pressly/goose":            {"internal/database"},
	"go.yaml.in/yaml":                     {"internal/config"},
	"github.com/aws/aws-sdk-go-v2":        {"internal/dialect/bedrock", "internal/upstream"},
	"net/http":                            {"internal/telemetry", "internal/tenant", "internal/upstream", "internal/alerts", "internal/proxy", "internal/admin", "internal/fakellm", "internal/app", "cmd/llmgw", "internal/dialect/bedrock"},
	"pgregory.net/rapid":                  {},
	"go.uber.org/goleak":                  {},
}

func TestImportsOnlyGoDown(t *testing.T) {
	for pkg, imports := range packages(t) {
		if matches(helpers, pkg) {
			continue
		}
		from := layerOf(pkg)
		if from < 0 {
			t.Errorf("%s is in no layer: place it in layers", pkg)
			continue
		}
		for _, imported := range imports {
			inner, ours := strings.CutPrefix(imported, module)
			if !ours {
				checkConfined(t, pkg, imported)
				continue
			}
			if matches(helpers, inner) {
				t.Errorf("%s imports %s, which is for tests", pkg, inner)
				continue
			}
			if to := layerOf(inner); to > from || (to == from && !sameTree(pkg, inner)) {
				t.Errorf("%s imports %s, which is not below it", pkg, inner)
			}
		}
	}
}

func checkConfined(t *testing.T, pkg, imported string) {
	t.Helper()
	for what, allowed := range confined {
		if (imported == what || strings.HasPrefix(imported, what+"/")) && !slices.ContainsFunc(allowed, func(a string) bool { return a == pkg || strings.HasPrefix(pkg, a+"/") }) {
			t.Errorf("%s imports %s, which is confined to %v", pkg, imported, allowed)
		}
	}
}

// sameTree tells whether one of two packages of a layer lies below the other:
// a package may use its own parts.
func sameTree(a, b string) bool {
	return strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/") || commonRoot(a, b)
}

// commonRoot allows parts of one tree that is listed with /... to use each other.
func commonRoot(a, b string) bool {
	for _, layer := range layers {
		for _, p := range layer {
			if root, tree := strings.CutSuffix(p, "/..."); tree && strings.HasPrefix(a, root) && strings.HasPrefix(b, root) {
				return true
			}
		}
	}
	return false
}

func layerOf(pkg string) int {
	for i, layer := range layers {
		if matches(layer, pkg) {
			return i
		}
	}
	return -1
}

func matches(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		root, tree := strings.CutSuffix(p, "/...")
		return pkg == root || (tree && strings.HasPrefix(pkg, root+"/"))
	})
}

// packages lists the imports of every package's files that are not tests.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	root := filepath.Join("..", "..")
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || (strings.HasPrefix(d.Name(), ".") && file != root)) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		if parsed.Name.Name == "main" && strings.Contains(file, "gen") {
			return nil // go generate's programs
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		pkg := path.Clean(filepath.ToSlash(rel))
		for _, i := range parsed.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			found[pkg] = append(found[pkg], name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 10 {
		t.Fatalf("found only %d packages: the walk is wrong", len(found))
	}
	return found
}
