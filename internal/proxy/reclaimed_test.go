package proxy

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"llmgw/internal/budget"
	"llmgw/internal/tokens"
)

func TestATagKeepsItsNamesAndIsBounded(t *testing.T) {
	for _, s := range []struct{ team, model, key, want string }{
		{"search", "gpt-4o", "k1", "search/gpt-4o/k1"},
		{"a/b|c", "m", "k", "a%2Fb%7Cc/m/k"},
		{"search", strings.Repeat("m", 200), "k", "search/other/"},
		{strings.Repeat("t", 200), "m", "k", ""},
	} {
		if got := tagOf(s.team, s.model, s.key); got != s.want {
			t.Errorf("got %q, want %q", got, s.want)
		}
	}
}

func TestWhatIsReclaimedIsBookedForItsTeamAndModel(t *testing.T) {
	inHouse(t, setting{}, nil, func(h *house) {
		h.Book([]budget.Ended{
			{ID: "provider-turn"}, // no tag: nobody's usage
			{ID: budget.Tagged("req_1.2", tagOf("a/b", "gpt-4o", "k")), Charged: map[budget.Unit]int64{budget.Tokens: 70, budget.OutputTokens: 20, budget.USD: 900, budget.Requests: 1}},
		})
		e := h.entry()
		if e.RequestID != "req_1" || e.Team != "a/b" || e.Model != "gpt-4o" || e.KeyID != "k" || e.Outcome != "reclaimed" || !e.Estimated || e.MicroUSD != 900 || e.Usage != (tokens.Usage{Input: 50, Output: 20}) {
			t.Errorf("got %+v", e)
		}
		const counted = `llmgw_requests_total{endpoint="unknown",model="gpt-4o",outcome="reclaimed",status="none",team="a/b"} 1`
		told := httptest.NewRecorder()
		h.Metrics.Handler().ServeHTTP(told, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		if !strings.Contains(told.Body.String(), counted) {
			t.Errorf("the metrics lack %s", counted)
		}
	})
}
