package app

import (
	"slices"

	"llmgw/internal/config"
)

// maxZeros bounds the pairs of team and model whose counters begin at 0.
const maxZeros = 2000

// beginAtZero makes the counters of what is configured begin at 0.
func (a *App) beginAtZero(c *config.Config) {
	n := 0
	for _, t := range c.Teams {
		for _, m := range c.Models {
			if m.Name == "*" || t.Models != nil && !slices.Contains(t.Models, m.Name) {
				continue
			}
			if n++; n > maxZeros {
				return
			}
			var providers []string
			for _, target := range m.Targets {
				if m.Prices != nil && !slices.Contains(providers, target.Provider) {
					providers = append(providers, target.Provider)
				}
			}
			a.metrics.Configured(t.Name, m.Name, providers)
		}
	}
}
