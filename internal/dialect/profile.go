package dialect

import (
	"regexp"
	"slices"
	"strings"

	"llmgw/internal/tokens"
)

// Profile is what is particular to an API and its providers. Other packages
// read it and switch on no names. It must not be changed.
type Profile struct {
	// Flavors are the kinds of providers that speak the API, at least one. The
	// first is the default. An API whose providers do not differ has one without a
	// name.
	Flavors []Flavor
	// Accepts are other dialects whose calls the providers of this one serve.
	Accepts []string
	// BasePath is the path in the base URL of the API's official clients.
	BasePath string

	// UsageFields are names in its report of usage that those of other APIs lack: by
	// one of them a report is known for this API's. Where the report is the answer
	// itself, and no object in it, UsageInAnswer is set.
	UsageFields   []string
	UsageInAnswer bool

	// APIVersion and Region are the forms of two settings of a provider.
	APIVersion, Region Setting
	// Signs reports whether a configured key signs requests, which needs a region.
	// nil: no key does.
	Signs func(key string) bool

	// AsksForCache says that prompts are cached only where the request asks for it.
	AsksForCache bool
	// AnyModality says that a model may answer in sound and pictures unless
	// generationConfig.responseModalities says otherwise.
	AnyModality bool

	// WriteLimit writes in the API's own headers how a client's limit stands. nil:
	// the function WriteLimit does.
	WriteLimit func(v *Values, l Level)
	Signals    Signals
	Listing    Listing
}

// Setting is the form of a setting that only some dialects have. The zero
// Setting is that of a dialect which does not have it.
type Setting struct {
	Form    *regexp.Regexp
	Example string
}

// Flavor is how one kind of providers differs from others of the same dialect.
// The zero Flavor is a provider of which nothing is known.
type Flavor struct {
	Name string
	// System is gen_ai.provider.name of the OpenTelemetry conventions, or our own
	// name where they have none.
	System string
	// Models is a word in the names of the models that such a provider serves. It
	// stands in for names that do not say whose the model is. Empty: anyone's.
	Models string
	Quota  Quota
	// DefaultBound says that a request without a bound on output has OpenAI's
	// default bound here.
	DefaultBound bool
	// DailyRequests says that its header of remaining requests is about the day.
	DailyRequests bool
	// Citations says that citations are billed.
	Citations bool
}

// Flavor returns the flavor of that name, the default if name is empty, and the
// zero Flavor if there is none of that name.
func (p *Profile) Flavor(name string) *Flavor {
	for i := range p.Flavors {
		if name == "" || p.Flavors[i].Name == name {
			return &p.Flavors[i]
		}
	}
	return &Flavor{}
}

// Quota is what a provider counts of a call against its tokens per minute. The
// zero Quota counts all input and output, on arrival the most output that the
// call allows.
type Quota struct {
	Output OutputQuota
	// FreeCacheReads says that cached input is not counted at the end.
	FreeCacheReads bool
	// OutputRate is how much one token of a model's output counts. nil: 1.
	OutputRate func(model string) tokens.Count
	// KeepsBound says that a bound which the request states stays counted,
	// whatever is used.
	KeepsBound bool
}

// OutputQuota says when output is counted.
type OutputQuota int

// The ways to count output.
const (
	OutputOnArrival OutputQuota = iota // the most that the call allows, later what was used
	OutputAsItComes
	OutputFree
)

// Arrival is what is counted when a call of this estimate arrives.
func (q *Quota) Arrival(input, output tokens.Count) tokens.Count {
	if q.Output != OutputOnArrival {
		return input
	}
	return tokens.Add(input, output)
}

// Used is what has been counted once a call to model used u.
func (q *Quota) Used(model string, u tokens.Usage) tokens.Count {
	input, output := u.Input, u.Output
	if q.FreeCacheReads {
		input -= min(u.CachedInput, u.Input)
	}
	if q.Output == OutputFree {
		return input
	}
	if q.OutputRate != nil {
		output = tokens.Mul(output, q.OutputRate(model))
	}
	return tokens.Add(input, output)
}

// Signals are headers and names by which providers show how an account stands.
// A provider may be a router that passes on what it got through another API, so
// readers use the Signals of all dialects together.
type Signals struct {
	// Requests and Tokens are headers with what is left of a limit by the minute or
	// by less.
	Requests, Tokens []string
	// Resets are headers that say when a limit is full again.
	Resets []Reset
	// Account are the starts of headers about the account that all clients share.
	Account []string

	// Refused and Spent are names in errors: the credential is refused whatever it
	// is used for, or the account's money is spent.
	Refused, Spent []string
	// The same in messages, where errors have no such name. Daily is a day's quota.
	RefusedPhrases, SpentPhrases, DailyPhrases []Phrase
}

// Reset is a pair of headers: what is left of a limit, and when it is full again.
type Reset struct{ Remaining, At string }

// Add adds the signals of o.
func (s *Signals) Add(o Signals) {
	s.Requests, s.Tokens = append(s.Requests, o.Requests...), append(s.Tokens, o.Tokens...)
	s.Resets, s.Account = append(s.Resets, o.Resets...), append(s.Account, o.Account...)
	s.Refused, s.Spent = append(s.Refused, o.Refused...), append(s.Spent, o.Spent...)
	s.RefusedPhrases = append(s.RefusedPhrases, o.RefusedPhrases...)
	s.SpentPhrases = append(s.SpentPhrases, o.SpentPhrases...)
	s.DailyPhrases = append(s.DailyPhrases, o.DailyPhrases...)
}

// Phrase recognizes a message by its start, and a part of it if Has is not
// empty. A start is needed: what follows may repeat what the client sent.
type Phrase struct{ Start, Has string }

// AnyIn reports whether message is one of phrases.
func AnyIn(phrases []Phrase, message string) bool {
	return slices.ContainsFunc(phrases, func(p Phrase) bool {
		return strings.HasPrefix(message, p.Start) && strings.Contains(message, p.Has)
	})
}
