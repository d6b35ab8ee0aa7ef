package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"

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
		Endpoint: endpoint, Path: o.Path, Header: dialect.Header{"Content-Type": {"application/json"}}, Body: withModel(o.Body, o.Model), Params: params,
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
func modelsOfFile(name string) (map[string]*proxy.Model, error) {
	if name == "" {
		return nil, nil
	}
	c, err := config.Load(name, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	return modelsOf(c, providersOf(c)), nil
}

// withModel adds a model to a body that is an object without one, so that a
// body can be estimated before anybody has chosen its model.
func withModel(body []byte, model string) []byte {
	if model == "" {
		return body
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil || object == nil || object["model"] != nil {
		return body
	}
	name, err := json.Marshal(model)
	if err != nil {
		return body
	}
	object["model"] = name
	out, err := json.Marshal(object)
	if err != nil {
		return body
	}
	return out
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
