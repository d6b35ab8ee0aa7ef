package arch

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTheDocumentedMetricsAreThoseThatThereAre(t *testing.T) {
	documented := metricsIn(t, filepath.Join("..", "..", "docs", "operations.md"))
	exist := metricsIn(t, filepath.Join("..", "telemetry", "*.go"))
	for _, name := range exist {
		if !slices.Contains(documented, name) {
			t.Errorf("docs/operations.md does not tell %s", name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(exist, name) {
			t.Errorf("docs/operations.md tells %s, which does not exist", name)
		}
	}
}

// metric is a metric's name as both Go and Markdown quote it.
var metric = regexp.MustCompile("[\"`](llmgw_[a-z_]+)")

// metricsIn lists the metrics that files name, but for tests.
func metricsIn(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range metric.FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s names no metric", pattern)
	}
	return slices.Sorted(maps.Keys(found))
}
