package ledger

import (
	"context"
	"log/slog"
	"time"

	"llmgw/internal/books"
	"llmgw/internal/tokens"
)

// Entry is what happened to one request. It holds no prompt, no answer, no
// secret.
type Entry struct {
	Time      time.Time // when it ended. Zero: when it is recorded
	RequestID string
	TraceID   string // empty: not traced
	Team      string
	KeyID     string
	Model     string // as the client named it
	Asked     string // the model of a request that was refused, as far as it was read; bounded in length
	Session   string // of the client, within its user; empty: it names none
	Endpoint  string // the path's pattern
	// Provider and ProviderModel are the target that answered, or empty.
	Provider, ProviderModel string
	Status                  int    // as the client saw it
	Outcome                 string // completed, client_gone, refused, …
	Code                    string // of a refusal, else empty
	Cause                   string // why the provider gave no answer or no whole one, or empty
	LimitedBy               string // the limit that refused, such as team/search/tpm, or empty
	Reserved                tokens.Count
	Usage                   tokens.Usage
	Estimated               bool  // the usage was counted by us, the provider told none
	MicroUSD                int64 // what it cost, in millionths of a dollar

	// The rest is for the books alone: the log has no line of it.
	User                           string
	Attempts                       int  // tries at providers
	Stream                         bool // asked for
	Degraded                       bool // decided without the store
	EstimatedInput, ReservedOutput tokens.Count
	Weighted, Charged              int64 // tokens by the model's weights: reserved, and used
	Tries                          []Try
	Drawn                          []Drawn
	Late                           bool // adds to a request that may have its record already

	Total      time.Duration // from arrival to the answer's end
	Overhead   time.Duration // the part that was ours
	Wait       time.Duration // for limits and the provider's turn
	FirstToken time.Duration // until the answer's first byte; 0: none came
}

// Try is one try of a request at a provider.
type Try = books.Try

// Drawn is what a request drew from one limit, in the limit's unit; dollars in
// dollars.
type Drawn = books.Limit

// Outcomes whose requests used nothing by design.
const (
	refused = "refused"
	invalid = "invalid"
)

// log writes e's line. Fields that say nothing are left out.
func (e *Entry) log(logger *slog.Logger) {
	ctx := context.Background()
	if !logger.Enabled(ctx, slog.LevelInfo) {
		return
	}
	attrs := make([]slog.Attr, 0, 26)
	text := func(key, v string) {
		if v != "" {
			attrs = append(attrs, slog.String(key, v))
		}
	}
	number := func(key string, n int64) {
		if n != 0 {
			attrs = append(attrs, slog.Int64(key, n))
		}
	}
	took := func(key string, d time.Duration) {
		if d != 0 {
			attrs = append(attrs, slog.Float64(key, float64(d.Microseconds())/1000))
		}
	}
	text("request_id", e.RequestID)
	text("trace_id", e.TraceID)
	text("team", e.Team)
	text("key_id", e.KeyID)
	text("model", e.Model)
	text("asked_model", e.Asked)
	text("session", e.Session)
	text("endpoint", e.Endpoint)
	text("provider", e.Provider)
	text("provider_model", e.ProviderModel)
	attrs = append(attrs, slog.Int("status", e.Status), slog.String("outcome", e.Outcome))
	text("code", e.Code)
	text("cause", e.Cause)
	text("limited_by", e.LimitedBy)
	number("reserved_tokens", int64(e.Reserved))
	number("input_tokens", int64(e.Usage.Input))
	number("cached_input_tokens", int64(e.Usage.CachedInput))
	number("cache_write_tokens", int64(e.Usage.CacheWrite))
	number("output_tokens", int64(e.Usage.Output))
	number("reasoning_tokens", int64(e.Usage.Reasoning))
	number("cache_write_1h_tokens", int64(e.Usage.CacheWrite1h))
	number("audio_input_tokens", int64(e.Usage.AudioInput))
	number("image_input_tokens", int64(e.Usage.ImageInput))
	number("citation_tokens", int64(e.Usage.Citations))
	number("audio_output_tokens", int64(e.Usage.AudioOutput))
	number("image_output_tokens", int64(e.Usage.ImageOutput))
	if e.Usage.Calls != (tokens.Calls{}) {
		for p := range tokens.Pieces() {
			number(p.String()+"_calls", int64(e.Usage.Calls[p]))
		}
	}
	text("tier", e.Usage.Tiers.String())
	if e.Estimated {
		attrs = append(attrs, slog.Bool("usage_estimated", true))
	}
	number("micro_usd", e.MicroUSD)
	took("total_ms", e.Total)
	took("overhead_ms", e.Overhead)
	took("wait_ms", e.Wait)
	took("first_token_ms", e.FirstToken)
	logger.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
}
