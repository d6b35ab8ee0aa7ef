package gatewaytest

import "testing"

const scrape = `# HELP llmgw_tokens_total Tokens.
# TYPE llmgw_tokens_total counter
llmgw_tokens_total{team="search",kind="input"} 20
llmgw_tokens_total{team="search",kind="output"} 5
llmgw_tokens_total{team="say \"hi\"\n, {you}",kind="input"} 1.5e3 1790000000000
llmgw_store_up 1
llmgw_seconds_bucket{le="+Inf"} +Inf
`

func TestSamplesAreFoundByTheirLabels(t *testing.T) {
	m, err := ParseMetrics(scrape)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		what   string
		name   string
		labels []string
		sum    float64
		count  int
	}{
		{"without labels all are summed", "llmgw_tokens_total", nil, 1525, 3},
		{"one label picks some", "llmgw_tokens_total", []string{"team", "search"}, 25, 2},
		{"all labels pick one", "llmgw_tokens_total", []string{"team", "search", "kind", "output"}, 5, 1},
		{"escapes are read", "llmgw_tokens_total", []string{"team", "say \"hi\"\n, {you}"}, 1500, 1},
		{"a sample may have no labels", "llmgw_store_up", nil, 1, 1},
		{"a value that nothing has", "llmgw_store_up", []string{"team", "x"}, 0, 0},
		{"a name that nothing has", "llmgw_store_down", nil, 0, 0},
	} {
		t.Run(s.what, func(t *testing.T) {
			if got := m.Sum(s.name, s.labels...); got != s.sum {
				t.Errorf("sum = %v, want %v", got, s.sum)
			}
			if got := m.Count(s.name, s.labels...); got != s.count {
				t.Errorf("count = %v, want %v", got, s.count)
			}
		})
	}
}

func TestBrokenMetricsAreAnError(t *testing.T) {
	for _, text := range []string{"name", "name{", `name{label`, `name{label=value} 1`, `name{label="value"`, `name{label="value"}`, "name one", "name "} {
		if m, err := ParseMetrics(text); err == nil {
			t.Errorf("%q was read as %+v", text, m)
		}
	}
}
