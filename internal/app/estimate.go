package app

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"llmgw/internal/charge"
	"llmgw/internal/config"
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/registry"
	"llmgw/internal/estimate"
	"llmgw/internal/fault"
	"llmgw/internal/proxy"
)

// EstimateOptions say what to estimate.
type EstimateOptions struct {
	ConfigFile string // empty: the defaults
	Model      string // empty: the body's
	Path       string
	Body       []byte
}

// Estimate says what a gateway would reserve for a request. Its errors name the
// field at fault.
func Estimate(o EstimateOptions) (estimate.Estimate, error) {
	models, err := modelsOfFile(o.ConfigFile)
	if err != nil {
		return estimate.Estimate{}, err
	}
	d, endpoint, params, ok := proxy.Route(registry.Dialects(), o.Path)
	if !ok {
		return estimate.Estimate{}, fault.Invalid("path", fmt.Sprintf("No call is made at %q.", o.Path))
	}
	call, err := d.Parse(dialect.Request{
		Endpoint: endpoint, Path: o.Path, Header: dialect.Header{"Content-Type": {"application/json"}}, Body: proxy.WithModel(o.Body, o.Model), Params: params,
	})
	if err != nil {
		return estimate.Estimate{}, err
	}
	if o.Model != "" {
		call.Model = o.Model
	}
	estimator := estimate.New(estimate.Config{})
	for _, name := range [...]string{call.Model, "*"} {
		if m := models[name]; m != nil {
			return m.Estimate(estimator, call)
		}
	}
	return estimator.Estimate(call, estimate.Rules{Dialect: call.Dialect, Flavor: call.Dialect})
}

// modelsOfFile are those that a configuration has; none without a file.
func modelsOfFile(name string) (map[string]*charge.Model, error) {
	if name == "" {
		return nil, nil
	}
	c, err := config.Load(name, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	return modelsOf(c, providersOf(c)), nil
}

// encodingsOf are those that c's models are counted in, and the one that names
// which nobody configured are most likely counted in.
func encodingsOf(c *config.Config) []string {
	all := []string{"o200k_base"}
	for _, m := range c.Models {
		for _, t := range m.Targets {
			if e := cmp.Or(m.Encoding, estimate.EncodingFor(cmp.Or(t.Model, m.Name))); !slices.Contains(all, e) {
				all = append(all, e)
			}
		}
	}
	return all
}
