package proxy

import (
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
	"llmgw/internal/tokens"
	"llmgw/internal/upstream"
)

func TestACallInTheBackgroundIsChargedWholeUnlessItsEndIsSeen(t *testing.T) {
	seen := tokens.Usage{Input: 7, Output: 3}
	whole := tokens.Usage{Input: 10, Output: 90}
	for _, s := range []struct {
		what   string
		report dialect.Report
		want   tokens.Usage
	}{
		{"it is queued", dialect.Report{Finish: "queued"}, whole},
		{"its stream is left or cut before any output", dialect.Report{}, whole},
		{"its stream is left or cut after some", dialect.Report{Content: true, Counted: 2}, whole},
		{"its end is seen", dialect.Report{Usage: seen, InputKnown: true, OutputKnown: true, Complete: true}, seen},
		{"it failed before any output", dialect.Report{Failure: &dialect.Failure{}}, tokens.Usage{}},
		{"it failed after some", dialect.Report{Failure: &dialect.Failure{}, Content: true, Counted: 2}, tokens.Usage{Input: 10, Output: 2}},
	} {
		p := &plan{call: &dialect.Call{Detached: true, Choices: 1}, estimate: estimate.Estimate{Input: 10, Output: 90}, requests: 1}
		if got := metered(p, clientGone, 200, s.report).usage; got != s.want {
			t.Errorf("%s: charged %+v, want %+v", s.what, got, s.want)
		}
	}
	p := &plan{call: &dialect.Call{Detached: true, Choices: 1}, estimate: estimate.Estimate{Input: 10, Output: 90}, requests: 1}
	if got := leftEarly(p, 0, clientGone); got.usage != whole || got.requests != 1 || got.outcome != clientGone {
		t.Errorf("its client left before the answer: charged %+v, want %+v", got, whole)
	}
	p.call.Detached = false
	if got := leftEarly(p, 0, clientGone).usage; got != (tokens.Usage{Input: 10}) {
		t.Errorf("another's client left: charged %+v, want its input", got)
	}
}

func TestPicturesAndSoundCostWhatWasReservedWhereNothingIsReported(t *testing.T) {
	for _, s := range []struct {
		what   string
		does   dialect.Operation
		report dialect.Report
		want   tokens.Usage
	}{
		{"pictures", dialect.Images, dialect.Report{Complete: true}, tokens.Usage{Input: 10, Output: 90}},
		{"a report of them", dialect.Images, dialect.Report{Usage: tokens.Usage{Input: 5, Output: 40}, InputKnown: true, OutputKnown: true, Complete: true}, tokens.Usage{Input: 5, Output: 40}},
		{"speech", dialect.Speech, dialect.Report{Complete: true}, tokens.Usage{Input: 10, Output: 90}},
		{"a transcript", dialect.Transcribe, dialect.Report{Complete: true, Counted: 3}, tokens.Usage{Input: 10, Output: 3}},
		{"a transcript of a minute", dialect.Transcribe, dialect.Report{Complete: true, Counted: 3, Seconds: 60}, tokens.Usage{Input: 600, Output: 3}},
		{"an error", dialect.Images, dialect.Report{Failure: &dialect.Failure{}}, tokens.Usage{}},
	} {
		call := &dialect.Call{Choices: 1}
		call.Endpoint.Operation = s.does
		p := &plan{call: call, estimate: estimate.Estimate{Input: 10, Output: 90}, requests: 1}
		if got := metered(p, completed, 200, s.report).usage; got != s.want {
			t.Errorf("%s: charged %+v, want %+v", s.what, got, s.want)
		}
	}
}

func TestWhoLeavesIsChargedByThePolicy(t *testing.T) {
	came := dialect.Report{Content: true, Counted: 3}
	whole, part := tokens.Usage{Input: 10, Output: 90}, tokens.Usage{Input: 10, Output: 3}
	for _, s := range []struct {
		what   string
		policy ClientGone
		o      outcome
		status int
		report dialect.Report
		want   tokens.Usage
	}{
		{"it leaves", Cancel, clientGone, 200, came, part},
		{"it leaves, and all is to be charged", ChargeEstimate, clientGone, 200, came, whole},
		{"it stays", ChargeEstimate, completed, 200, came, part},
		{"it leaves an error", ChargeEstimate, clientGone, 400, dialect.Report{}, tokens.Usage{}},
		{"it leaves a stream that began with one", ChargeEstimate, clientGone, 200, dialect.Report{Failure: &dialect.Failure{}}, tokens.Usage{}},
	} {
		p := &plan{call: &dialect.Call{Choices: 1}, estimate: estimate.Estimate{Input: 10, Output: 90}, requests: 1}
		a := &relayed{rules: &Rules{OnClientGone: s.policy}, s: &settlement{plan: p}, resp: &upstream.Response{Status: s.status}}
		if got := a.ended(s.o, s.report).usage; got != s.want {
			t.Errorf("%s: charged %+v, want %+v", s.what, got, s.want)
		}
	}
}
