package proxy

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

func TestAProviderCannotSpeakForTheGateway(t *testing.T) {
	from := http.Header{
		"Content-Type": {"application/json"}, "X-Request-Id": {"req_1"}, "Retry-After": {"1"},
		"X-Llmgw-Upstream": {"other/model"}, "X-Llmgw-Error-Code": {"held"}, "X-Llmgw-Degraded": {"true"},
		"Set-Cookie": {"account=1"}, "Www-Authenticate": {"Bearer"}, "X-Api-Key": {"sk-provider"}, "X-Session-Token": {"t"}, "Connection": {"X-Private"}, "X-Private": {"1"}, "Upgrade": {"h2c"},
		"X-Ratelimit-Limit-Tokens": {"7"}, "Anthropic-Ratelimit-Requests-Limit": {"7"},
	}
	for _, s := range []struct {
		what   string
		expose Exposure
		want   []string
	}{
		{"the account's limits are hidden", HideLimits, []string{"Content-Type", "Retry-After", "X-Request-Id"}},
		{"the account's limits are shown", ExposeLimits, []string{
			"Content-Type", "Retry-After", "X-Request-Id", "X-Upstream-Anthropic-Ratelimit-Requests-Limit", "X-Upstream-X-Ratelimit-Limit-Tokens",
		}},
	} {
		t.Run(s.what, func(t *testing.T) {
			to := http.Header{}
			copyAnswerHeader(to, from, s.expose)
			if got := slices.Sorted(maps.Keys(to)); !slices.Equal(got, s.want) {
				t.Errorf("got %v, want %v", got, s.want)
			}
		})
	}
}

func TestARedirectAndAnUnchangedAnswerCostNothing(t *testing.T) {
	for _, status := range []int{http.StatusNotModified, http.StatusBadRequest, http.StatusInternalServerError} {
		e := (&plan{}).Metered(charge.Completed, status, dialect.Report{Usage: tokens.Usage{Input: 7}, InputKnown: true, Complete: true})
		if e.Outcome != charge.UpstreamError || e.Requests != 0 || e.Usage.Total() != 0 {
			t.Errorf("%d: got %+v, want nothing charged", status, e)
		}
	}
}
