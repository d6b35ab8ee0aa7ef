package proxy

import (
	"fmt"
	"slices"
	"strings"

	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/registry"
	"llmgw/internal/fault"
	"llmgw/internal/tenant"
)

// label is the label of the model that a client names, which may be nothing.
func (r *Rules) label(name string) string {
	if _, configured := r.Models[name]; configured && name != charge.Wildcard {
		return name
	}
	return "other"
}

// model finds the model that name asks for, as key may use it. A configured
// model that the key or its team may not use is ModelNotAllowed; any other is
// ModelNotFound.
func (r *Rules) model(key *tenant.Key, name string) (*charge.Model, error) {
	if m, ok := r.Models[name]; ok && name != charge.Wildcard {
		if key.Allows(name) {
			return m, nil
		}
		whose := fmt.Sprintf("Team %q", key.Team.Name)
		if key.Team.Allows(name) {
			whose = fmt.Sprintf("The key %q", key.ID)
		}
		return nil, &fault.Error{
			Code: fault.ModelNotAllowed, Param: "model", NoRetry: true,
			Message: fmt.Sprintf("%s may not use the model %q.", whose, name),
		}
	}
	if m, ok := r.Models[charge.Wildcard]; ok && name != "" && (key.Allows(name) || key.Allows(charge.Wildcard)) {
		return m, nil
	}
	return nil, &fault.Error{
		Code: fault.ModelNotFound, Param: "model", NoRetry: true,
		Message: fmt.Sprintf("The model %q does not exist here. GET /v1/models lists what this key may use.", name),
	}
}

// wrongDialect refuses a call for a model that is served in other dialects, and
// names where.
func (g *Gateway) wrongDialect(name string, m *charge.Model) error {
	var use []string
	for _, t := range m.Targets {
		if e := g.endpointOf(t.Provider.Dialect); !slices.Contains(use, e) {
			use = append(use, e)
		}
	}
	return fault.Invalid("model", fmt.Sprintf("The model %q is not served by this API. Call it at %s.", name, strings.Join(use, " or ")))
}

// endpointOf is where a client has calls sent to a provider of some dialect.
func (g *Gateway) endpointOf(provider string) string {
	for _, d := range g.Dialects {
		if !registry.Serves(provider, d.Name()) {
			continue
		}
		for _, e := range d.Endpoints() {
			if e.Operation == dialect.Chat {
				return e.Method + " " + braced(e.Pattern)
			}
		}
	}
	return "no path" // a dialect that nobody serves: the configuration has none
}
