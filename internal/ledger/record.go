package ledger

import (
	"time"

	"llmgw/internal/books"
)

// record is what the books have of e.
func (e *Entry) record() books.Record {
	model := e.Model
	if model == "" {
		model = e.Asked
	}
	return books.Record{
		ID: e.RequestID, Time: e.Time, Team: e.Team, KeyID: e.KeyID, User: e.User, Session: e.Session,
		Model: model, Provider: e.Provider, ProviderModel: e.ProviderModel, Endpoint: e.Endpoint,
		Status: e.Status, Outcome: e.Outcome, Code: e.Code, LimitedBy: e.LimitedBy, Attempts: e.Attempts,
		Stream: e.Stream, Estimated: e.Estimated, Degraded: e.Degraded,
		EstimatedInput: int64(e.EstimatedInput), ReservedOutput: int64(e.ReservedOutput),
		Input: int64(e.Usage.Input), CachedInput: int64(e.Usage.CachedInput), CacheWrite: int64(e.Usage.CacheWrite),
		Output: int64(e.Usage.Output), Reasoning: int64(e.Usage.Reasoning),
		Reserved: e.Weighted, Charged: e.Charged, USD: books.Dollars(e.MicroUSD),
		QueueMS: milliseconds(e.Wait), FirstTokenMS: milliseconds(e.FirstToken), TotalMS: milliseconds(e.Total), OverheadMS: milliseconds(e.Overhead),
		Tries: e.Tries, Limits: e.Drawn, Late: e.Late,
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
