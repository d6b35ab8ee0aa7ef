package charge

import (
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
	"llmgw/internal/tokens"
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
		p := &Plan{Call: &dialect.Call{Detached: true, Choices: 1}, Estimate: estimate.Estimate{Input: 10, Output: 90}, Requests: 1}
		if got := p.Metered(ClientGone, 200, s.report).Usage; got != s.want {
			t.Errorf("%s: charged %+v, want %+v", s.what, got, s.want)
		}
	}
	p := &Plan{Call: &dialect.Call{Detached: true, Choices: 1}, Estimate: estimate.Estimate{Input: 10, Output: 90}, Requests: 1}
	if got := p.LeftEarly(0, ClientGone); got.Usage != whole || got.Requests != 1 || got.Outcome != ClientGone {
		t.Errorf("its client left before the answer: charged %+v, want %+v", got, whole)
	}
	p.Call.Detached = false
	if got := p.LeftEarly(0, ClientGone).Usage; got != (tokens.Usage{Input: 10}) {
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
		p := &Plan{Call: call, Estimate: estimate.Estimate{Input: 10, Output: 90}, Requests: 1}
		if got := p.Metered(Completed, 200, s.report).Usage; got != s.want {
			t.Errorf("%s: charged %+v, want %+v", s.what, got, s.want)
		}
	}
}
