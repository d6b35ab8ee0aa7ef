// Package dialecttest is what every dialect must do, as tests: Run feeds the
// recorded requests and answers in ../testdata to a dialect, whole and cut
// anywhere, and compares what it reads with what is known of them.
//
// fixtures.go reads the recordings, answers.go tests meters, requests.go parsing
// and preparing, refusals.go the gateway's own answers.
package dialecttest

import (
	"testing"

	"llmgw/internal/dialect"
)

// Suite says which recordings are a dialect's.
type Suite struct {
	Dialect dialect.Dialect
	// Answers maps the recordings' names of APIs ("openai.chat") to what was
	// called.
	Answers map[string]Source
	// Requests are the names of APIs whose recorded requests it parses.
	Requests []string
	// Elsewhere are recorded requests to paths that the dialect does not have.
	Elsewhere []string
	// StreamType is the content type of its streams, and StreamPattern the
	// pattern of an endpoint that has one, where it tells answers by that.
	StreamType, StreamPattern string
}

// Source is what a recording answers.
type Source struct {
	Operation dialect.Operation
	Flavor    string
	Pattern   string // of the endpoint, where its dialect tells answers by it
}

// Run tests a dialect.
func Run(t *testing.T, s Suite) {
	t.Run("answers", func(t *testing.T) { testAnswers(t, s) })
	t.Run("requests", func(t *testing.T) { testRequests(t, s) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, s) })
}
