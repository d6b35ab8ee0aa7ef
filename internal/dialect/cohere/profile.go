package cohere

import "llmgw/internal/dialect"

// Profile implements dialect.Dialect.
func (Dialect) Profile() *dialect.Profile { return &profile }

var profile = dialect.Profile{
	UsageFields: []string{"billed_units"},
	Flavors:     []dialect.Flavor{{System: Name}},
	Signals: dialect.Signals{
		SpentPhrases: []dialect.Phrase{{Start: "You are using a Trial key, which is limited to", Has: "/ month"}},
	},
}
