// Package registry lists the dialects and finds what is known of a provider by
// the dialect and flavor of its configuration. A new dialect is its own package
// and a line here.
package registry

import (
	"slices"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/anthropic"
	"llmgw/internal/dialect/azure"
	"llmgw/internal/dialect/bedrock"
	"llmgw/internal/dialect/cohere"
	"llmgw/internal/dialect/gemini"
	"llmgw/internal/dialect/ollama"
	"llmgw/internal/dialect/openai"
)

// all are the dialects. The first is that of a path which is like no other.
var all = []dialect.Dialect{openai.New(), azure.New(), anthropic.New(), gemini.New(), bedrock.New(), cohere.New(), ollama.New()}

// Dialects returns all dialects.
func Dialects() []dialect.Dialect { return slices.Clone(all) }

// Names returns the names of the dialects that keep holds for; nil: of all.
func Names(keep func(*dialect.Profile) bool) []string {
	var names []string
	for _, d := range all {
		if keep == nil || keep(d.Profile()) {
			names = append(names, d.Name())
		}
	}
	return names
}

// Flavors returns the names of all flavors.
func Flavors() []string {
	var names []string
	for _, d := range all {
		for _, f := range d.Profile().Flavors {
			if f.Name != "" {
				names = append(names, f.Name)
			}
		}
	}
	return names
}

// Profile returns what is particular to the dialect of that name: the first
// dialect if it is empty, the zero Profile if there is none of that name.
func Profile(name string) *dialect.Profile {
	for _, d := range all {
		if name == "" || d.Name() == name {
			return d.Profile()
		}
	}
	return &dialect.Profile{}
}

// Flavor returns what is particular to providers of a dialect and a flavor.
func Flavor(name, flavor string) *dialect.Flavor { return Profile(name).Flavor(flavor) }

// Serves reports whether providers of one dialect serve calls of another.
func Serves(provider, client string) bool {
	return provider == client || slices.Contains(Profile(provider).Accepts, client)
}

// Signals returns those of all dialects together.
func Signals() *dialect.Signals {
	var s dialect.Signals
	for _, d := range all {
		s.Add(d.Profile().Signals)
	}
	return &s
}
