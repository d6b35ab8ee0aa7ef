package upstream

import (
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/registry"
)

// flavor is what is particular to providers of p's kind.
func (p *Provider) flavor() *dialect.Flavor { return registry.Flavor(p.Dialect, p.Flavor) }

// keeps reports whether p goes on counting what it counted when the call arrived,
// whatever is used.
func keeps(p *Provider, j *Job) bool {
	return p.flavor().Quota.KeepsBound && (j.Call.HasMaxOutput || j.CapOutput > 0)
}
