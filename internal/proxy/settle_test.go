package proxy

import (
	"testing"

	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
	"llmgw/internal/tokens"
	"llmgw/internal/upstream"
)

func TestWhoLeavesIsChargedByThePolicy(t *testing.T) {
	came := dialect.Report{Content: true, Counted: 3}
	whole, part := tokens.Usage{Input: 10, Output: 90}, tokens.Usage{Input: 10, Output: 3}
	for _, s := range []struct {
		what   string
		policy ClientGone
		o      charge.Outcome
		status int
		report dialect.Report
		want   tokens.Usage
	}{
		{"it leaves", Cancel, charge.ClientGone, 200, came, part},
		{"it leaves, and all is to be charged", ChargeEstimate, charge.ClientGone, 200, came, whole},
		{"it stays", ChargeEstimate, charge.Completed, 200, came, part},
		{"it leaves an error", ChargeEstimate, charge.ClientGone, 400, dialect.Report{}, tokens.Usage{}},
		{"it leaves a stream that began with one", ChargeEstimate, charge.ClientGone, 200, dialect.Report{Failure: &dialect.Failure{}}, tokens.Usage{}},
	} {
		p := &plan{Plan: charge.Plan{Call: &dialect.Call{Choices: 1}, Estimate: estimate.Estimate{Input: 10, Output: 90}, Requests: 1}}
		a := &relayed{rules: &Rules{OnClientGone: s.policy}, s: &settlement{plan: p}, resp: &upstream.Response{Status: s.status}}
		if got := a.ended(s.o, s.report).Usage; got != s.want {
			t.Errorf("%s: charged %+v, want %+v", s.what, got, s.want)
		}
	}
}
