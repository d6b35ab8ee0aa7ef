package estimate

import "llmgw/internal/tokens"

// hiddenKinds are the kinds of input that a provider adds to a request and that
// its body does not show.
type hiddenKinds uint8

const (
	hiddenContext hiddenKinds = 1 << iota // a stored conversation, prompt or cache
	hiddenTools                           // what tools of the provider's find
	hiddenFiles                           // files that are elsewhere
)

// Of hidden input nothing is known before a team's first answer: then this much
// of it is reserved. Files count by themselves.
const (
	firstContext tokens.Count = 32_768
	firstTools   tokens.Count = 16_384
)

// hiddenEnough is how many answers must have shown their hidden input before it
// is reserved.
const hiddenEnough = 1

// mostHidden bounds what is reserved: more than the context of any model.
const mostHidden tokens.Count = 4 << 20

// hiddenInput is what is reserved for the hidden input of a team's call: what 99
// of 100 of its calls of these kinds stayed within. One team's calls say nothing
// about those of another.
func (e *Estimator) hiddenInput(team, model string, kinds hiddenKinds) tokens.Count {
	if kinds == 0 {
		return 0
	}
	if n, ok := e.hidden.likely(outputKey{team, model, kinds}, hiddenEnough); ok {
		return min(n, mostHidden)
	}
	n := tokens.Count(0)
	if kinds&hiddenContext != 0 {
		n += firstContext
	}
	if kinds&hiddenTools != 0 {
		n += firstTools
	}
	return n
}

// Shown is e without the hidden input that is reserved: what the request's body
// alone makes likely.
func (e Estimate) Shown() Estimate {
	e.Input -= e.Parts.Hidden
	e.Parts.Hidden = 0
	return e
}
