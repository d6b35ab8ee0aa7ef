package app

import (
	"encoding/json"
	"fmt"
	"os"

	"llmgw/internal/config"
	"llmgw/internal/dialect"
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
	var models []config.Model
	if o.ConfigFile != "" {
		c, err := config.Load(o.ConfigFile, os.LookupEnv)
		if err != nil {
			return estimate.Estimate{}, err
		}
		models = c.Models
	}
	d, endpoint, params, ok := proxy.Route(dialects(), o.Path)
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
	return estimate.New(estimate.Config{}).Estimate(call, rulesFor(models, call))
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

// rulesFor are those of the configured model that call asks for, else the
// defaults.
func rulesFor(models []config.Model, call *dialect.Call) estimate.Rules {
	rules := estimate.Rules{Dialect: call.Dialect, Flavor: call.Dialect}
	for _, m := range models {
		if m.Name == call.Model || m.Name == "*" {
			rules.Encoding, rules.DefaultMaxOutput, rules.MaxOutput = m.Encoding, m.DefaultMaxOutput, m.MaxOutput
			rules.Model = m.Targets[0].Model
			if m.Name == call.Model {
				break
			}
		}
	}
	return rules
}
