package proxy

import (
	"cmp"
	"net/url"
	"strings"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/ledger"
	"llmgw/internal/telemetry"
	"llmgw/internal/tokens"
)

// reclaimed is the outcome of a request whose gateway died before it could settle.
const reclaimed charge.Outcome = "reclaimed"

// longestTag bounds a tag, in bytes: stores bound an id with it.
const longestTag = 150

// tagOf is the tag of a reservation: the team, model and key that it is booked as
// if another gateway has to end it.
func tagOf(team, model, key string) string {
	tag := url.PathEscape(team) + "/" + url.PathEscape(model) + "/" + url.PathEscape(key)
	if len(tag) <= longestTag {
		return tag
	}
	if tag = url.PathEscape(team) + "/other/"; len(tag) <= longestTag {
		return tag
	}
	return ""
}

// Book records what reclaimed reservations were charged: in the usage log, the
// totals and the metrics. Of their tokens only the sum is known where no limit
// counts output; it then stands as input. It does not block.
func (g *Gateway) Book(ended []budget.Ended) {
	for _, e := range ended {
		names := strings.Split(budget.Tag(e.ID), "/")
		if len(names) != 3 {
			continue // of a later version
		}
		for i := range names {
			if name, err := url.PathUnescape(names[i]); err == nil {
				names[i] = name
			}
		}
		team, model := names[0], names[1]
		id, _, _ := strings.Cut(e.ID, "|")
		id, _, _ = strings.Cut(id, ".") // the attempt
		output := tokens.Count(e.Charged[budget.OutputTokens])
		used := tokens.Usage{
			Input:  max(tokens.Count(e.Charged[budget.Tokens])-output, tokens.Count(e.Charged[budget.InputTokens])),
			Output: output,
		}
		if used != (tokens.Usage{}) {
			g.Metrics.Reserved(team, model, used.Total()) // what was more came back there
			g.Metrics.Tokens(team, model, used)
			g.Metrics.SettlementEstimated(team, model)
			g.Metrics.Cost(team, model, "", e.Charged[budget.USD])
		}
		id, _, _ = strings.Cut(id, "+") // an extension
		endpoint := cmp.Or(reclaimedAt(id), "unknown")
		g.Metrics.RequestEnded(telemetry.RequestLabels{Team: team, Model: model, Endpoint: endpoint, Outcome: string(reclaimed)})
		g.Ledger.Record(ledger.Entry{
			RequestID: id, Team: team, KeyID: names[2], Model: model, Endpoint: reclaimedAt(id), Outcome: string(reclaimed), Late: true,
			Usage: used, Estimated: true, MicroUSD: e.Charged[budget.USD], Charged: e.Charged[budget.Tokens],
		})
	}
}

// reclaimedAt is the endpoint of a reclaimed reservation; empty if it is not known.
func reclaimedAt(id string) string {
	if strings.HasPrefix(id, "rsv_") {
		return outsideEndpoint
	}
	return ""
}
