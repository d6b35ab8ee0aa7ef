package gatewaytest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Metrics are the samples of one scrape.
type Metrics []Sample

// Sample is one line of the Prometheus text format.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64
}

// Metrics scrapes the gateway.
func (g *Gateway) Metrics() Metrics {
	g.t.Helper()
	a := g.Admin(http.MethodGet, "/metrics", "", "Accept", "text/plain;version=0.0.4")
	if a.Status != http.StatusOK {
		g.t.Fatalf("GET /metrics: %d %s", a.Status, a.Body)
	}
	m, err := ParseMetrics(a.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return m
}

// Sum adds up the samples of that name whose labels have the given values, in
// pairs of name and value; other labels may have any. No sample: 0.
func (m Metrics) Sum(name string, labels ...string) float64 {
	var sum float64
	for _, s := range m {
		if s.Name == name && s.has(labels) {
			sum += s.Value
		}
	}
	return sum
}

// Count is the number of samples of that name with those labels.
func (m Metrics) Count(name string, labels ...string) int {
	n := 0
	for _, s := range m {
		if s.Name == name && s.has(labels) {
			n++
		}
	}
	return n
}

func (s Sample) has(labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		if s.Labels[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// ParseMetrics reads the Prometheus text format. It returns an error that
// quotes the first line it does not understand.
func ParseMetrics(text string) (Metrics, error) {
	var m Metrics
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		s, err := parseSample(line)
		if err != nil {
			return nil, fmt.Errorf("metrics: %q: %w", line, err)
		}
		m = append(m, s)
	}
	return m, nil
}

// parseSample reads name{label="value",…} value [timestamp].
func parseSample(line string) (Sample, error) {
	i := strings.IndexAny(line, "{ ")
	if i < 0 {
		return Sample{}, fmt.Errorf("no value")
	}
	s := Sample{Name: line[:i], Labels: map[string]string{}}
	rest := line[i:]
	if rest[0] == '{' {
		var err error
		if rest, err = s.labels(rest[1:]); err != nil {
			return Sample{}, err
		}
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return Sample{}, fmt.Errorf("no value")
	}
	var err error
	s.Value, err = strconv.ParseFloat(fields[0], 64)
	return s, err
}

// labels reads label="value",…} and returns what follows.
func (s *Sample) labels(rest string) (string, error) {
	for {
		rest = strings.TrimLeft(rest, ", ")
		if after, done := strings.CutPrefix(rest, "}"); done {
			return after, nil
		}
		name, after, found := strings.Cut(rest, "=")
		if !found {
			return "", fmt.Errorf("no = after a label's name")
		}
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil {
			return "", err
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return "", err
		}
		s.Labels[name] = value
		rest = after[len(quoted):]
	}
}
