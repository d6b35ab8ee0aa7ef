package telemetry

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v4"

	"llmgw/internal/testenv"
)

// What watches the gateway lies in configs/: it may only name what is there.
const configs = "../../configs"

// query is one PromQL expression and where it stands.
type query struct{ where, expr string }

func TestDashboardsAndRulesNameOnlyWhatExists(t *testing.T) {
	known := known(t)
	recorded := make(map[string]bool)
	for _, r := range rules(t) {
		if r.Record != "" {
			recorded[r.Record] = true
		}
	}
	queries := append(ruleQueries(t), dashboardQueries(t)...)
	if len(queries) < 50 {
		t.Fatalf("only %d expressions were found", len(queries))
	}
	used := make(map[string]bool)
	for _, q := range queries {
		for _, name := range recordedName.FindAllString(q.expr, -1) {
			if !recorded[name] {
				t.Errorf("%s: no rule records %s", q.where, name)
			}
		}
		for _, m := range metricUse.FindAllStringSubmatch(q.expr, -1) {
			name := m[1]
			labels, ok := known[name]
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if base, cut := strings.CutSuffix(name, suffix); cut && !ok {
					name = base
					labels, ok = known[base]
				}
			}
			if !ok {
				t.Errorf("%s: there is no metric %s", q.where, m[1])
				continue
			}
			used[name] = true
			for _, label := range labelUse.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(append(labels, "instance", "job", "le"), label[1]) {
					t.Errorf("%s: %s has no label %s", q.where, name, label[1])
				}
			}
		}
	}
	for name := range known {
		if !used[name] {
			t.Errorf("nothing watches %s", name)
		}
	}
}

func TestEveryAlertSaysWhatToDo(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(configs, "..", "docs", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	runbook := string(raw)
	alerts := 0
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		if !slices.Contains([]string{"page", "ticket", "team"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
		if r.Annotations["summary"] == "" || r.Annotations["action"] == "" {
			t.Errorf("%s: annotations %v", r.Alert, r.Annotations)
		}
		alerts++
		if want := "docs/runbook.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		_, section, found := strings.Cut(runbook, "\n## "+r.Alert+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, part := range []string{"**Means.**", "**Look at.**", "**Do.**"} {
			if !found || !strings.Contains(section, part) {
				t.Errorf("docs/runbook.md: the section of %s lacks %s", r.Alert, part)
			}
		}
	}
	if sections := strings.Count(runbook, "\n## "); sections != alerts {
		t.Errorf("docs/runbook.md has %d sections for %d alerts", sections, alerts)
	}
}

func TestPromtoolAcceptsTheRulesAndTheirTestsPass(t *testing.T) {
	promtool := testenv.Program(t, "promtool")
	for _, args := range [][]string{
		{"check", "config", "prometheus.yml"},
		{"check", "rules", "rules.yml", "alerts.yml"},
		{"test", "rules", "rules_test.yml"},
	} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = filepath.Join(configs, "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// An alert that no test makes fire may never fire.
func TestEveryAlertIsTestedToFire(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(configs, "prometheus", "rules_test.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Alerts []struct {
				Alertname string
				Exp       []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	fires := make(map[string]bool)
	for _, test := range file.Tests {
		for _, a := range test.Alerts {
			if len(a.Exp) > 0 {
				fires[a.Alertname] = true
			}
		}
	}
	for _, r := range rules(t) {
		if r.Alert != "" && !fires[r.Alert] {
			t.Errorf("no test makes %s fire", r.Alert)
		}
	}
}

// Grafana's expressions become rules, so that promtool judges them.
func TestTheDashboardsExpressionsAreValid(t *testing.T) {
	promtool := testenv.Program(t, "promtool")
	var text strings.Builder
	text.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for i, q := range dashboardQueries(t) {
		expr := strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h").Replace(q.expr)
		fmt.Fprintf(&text, "  - record: q%d\n    expr: %q\n", i, expr)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestADashboardsPanelsDoNotOverlap(t *testing.T) {
	for _, d := range dashboards(t) {
		ids := make(map[int]string)
		taken := make(map[[2]int]string)
		for _, p := range d.Panels {
			if other := ids[p.ID]; other != "" {
				t.Errorf("%s and %s have one id", other, p.Title)
			}
			ids[p.ID] = p.Title
			if p.Grid.X+p.Grid.W > 24 {
				t.Errorf("%s is wider than the page", p.Title)
			}
			for x := p.Grid.X; x < p.Grid.X+p.Grid.W; x++ {
				for y := p.Grid.Y; y < p.Grid.Y+p.Grid.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Fatalf("%s and %s overlap", other, p.Title)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}

var (
	recordedName = regexp.MustCompile(`\b[a-z_]+:llmgw_[a-z_]+:[a-z0-9_]+|\bllmgw:[a-z_]+:[a-z0-9_]+`)
	metricUse    = regexp.MustCompile(`(?:^|[^:a-z_])(llmgw_[a-z_]+)(?:\{([^}]*)\})?(?:[^:a-z_{]|$)`)
	labelUse     = regexp.MustCompile(`([a-z_]+)\s*(?:=|!=|=~|!~)\s*"`)
	described    = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
)

// known lists llmgw's metrics with their labels.
func known(t *testing.T) map[string][]string {
	t.Helper()
	m := newTestMetrics(t)
	m.ReservationsOpen(func() int { return 0 })
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		m.registry.Describe(descs)
	}()
	known := make(map[string][]string)
	for d := range descs {
		parts := described.FindStringSubmatch(d.String())
		if parts == nil {
			t.Fatalf("cannot read %s", d)
		}
		if !strings.HasPrefix(parts[1], "llmgw_") {
			continue
		}
		known[parts[1]] = strings.Split(parts[2], ",")
	}
	known["llmgw_build_info"] = []string{"version", "commit", "go_version"}
	return known
}

type rule struct {
	Record, Alert, Expr string
	Labels, Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var all []rule
	for _, name := range []string{"rules.yml", "alerts.yml"} {
		raw, err := os.ReadFile(filepath.Join(configs, "prometheus", name))
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Groups []struct{ Rules []rule } }
		if err := yaml.Unmarshal(raw, &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, g := range file.Groups {
			all = append(all, g.Rules...)
		}
	}
	return all
}

func ruleQueries(t *testing.T) []query {
	t.Helper()
	var all []query
	for _, r := range rules(t) {
		all = append(all, query{r.Record + r.Alert, r.Expr})
	}
	return all
}

type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		Grid    struct{ X, Y, W, H int } `json:"gridPos"`
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

func dashboards(t *testing.T) []dashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(configs, "grafana", "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	var all []dashboard
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, d)
	}
	return all
}

func dashboardQueries(t *testing.T) []query {
	t.Helper()
	var all []query
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				all = append(all, query{"panel " + p.Title, target.Expr})
			}
		}
	}
	return all
}
