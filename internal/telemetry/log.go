package telemetry

import (
	"io"
	"log/slog"
)

// NewLogger returns a logger that writes one JSON object a line to w, records
// below level left out. Secrets are redacted by the names of attributes and by
// the look of values, messages and errors included: nobody should log one, and
// if somebody does, it does not get out.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level:       level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return redactAttr(a) },
	}))
}
