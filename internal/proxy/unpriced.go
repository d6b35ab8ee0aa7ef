package proxy

import (
	"log/slog"
	"sync"

	"llmgw/internal/telemetry"
	"llmgw/internal/tokens"
)

// unpriced counts what providers report and the configuration has no price for,
// and logs it once for each model. Its memory is bounded by the configured
// models. It is safe for concurrent use.
type unpriced struct {
	log     *slog.Logger
	metrics *telemetry.Metrics
	seen    sync.Map // of unpricedKey
}

type unpricedKey struct{ model, what string }

// note takes what a call used of a model that has prices.
func (u *unpriced) note(label string, prices *tokens.Prices, used tokens.Usage) {
	for _, what := range prices.Unpriced(used) {
		u.metrics.Unpriced(label, what)
		if _, logged := u.seen.LoadOrStore(unpricedKey{label, what}, nil); !logged {
			u.log.Warn("the provider reports something that the model has no price for: it is charged as its whole, or nothing", "model", label, "class", what)
		}
	}
}
