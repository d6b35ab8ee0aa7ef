package tokens

import (
	"iter"
	"strings"
)

// Class is a class of tokens that can have a price of its own.
type Class uint8

// The classes. Those before Output are parts of the input, the others of the
// output. Every token is in one class.
const (
	Input Class = iota
	CachedInput
	CacheWrite
	CacheWrite1h
	AudioInput
	CachedAudioInput
	ImageInput
	Citations
	Output
	Reasoning
	AudioOutput
	ImageOutput

	classes // how many there are
)

var classNames = [classes]string{
	"input", "cached_input", "cache_write", "cache_write_1h", "audio_input", "cached_audio_input", "image_input", "citations",
	"output", "reasoning", "audio_output", "image_output",
}

// String returns the name of c in a configuration, such as cached_input.
func (c Class) String() string { return classNames[c] }

// Classes yields all classes, Input first.
func Classes() iter.Seq[Class] { return upTo(classes) }

// isInput reports whether c is a part of the input.
func (c Class) isInput() bool { return c < Output }

// fallback is the class whose price c has unless it has its own. Input and
// Output are their own.
func (c Class) fallback() Class {
	switch c {
	case CacheWrite1h:
		return CacheWrite
	case CachedAudioInput:
		return CachedInput
	case CachedInput, CacheWrite, AudioInput, ImageInput, Citations:
		return Input
	case Reasoning, AudioOutput, ImageOutput:
		return Output
	default:
		return c
	}
}

// of returns how many tokens of each class u has. Parts that are together larger
// than their whole are cut to it, in the order of the fields.
func (u Usage) of() (n [classes]Count) {
	input, output := clamp(u.Input, MaxCount), clamp(u.Output, MaxCount)
	take := func(whole *Count, part Count) Count {
		part = clamp(part, *whole)
		*whole -= part
		return part
	}
	cached := take(&input, u.CachedInput)
	written := take(&input, u.CacheWrite)
	cachedAudio := take(&cached, u.CachedAudio)
	n[CachedAudioInput], n[CachedInput] = cachedAudio, cached
	n[CacheWrite1h] = take(&written, u.CacheWrite1h)
	n[CacheWrite] = written
	n[AudioInput] = take(&input, u.AudioInput-cachedAudio)
	n[ImageInput] = take(&input, u.ImageInput)
	n[Citations] = take(&input, u.Citations)
	n[Input] = input
	n[AudioOutput] = take(&output, u.AudioOutput)
	n[ImageOutput] = take(&output, u.ImageOutput)
	n[Reasoning] = take(&output, u.Reasoning)
	n[Output] = output
	return n
}

// Piece is something that a provider bills by the piece, whatever its tokens.
type Piece uint8

// The pieces.
const (
	WebSearch       Piece = iota // a search of the web
	XSearch                      // a search of posts on X
	FileSearch                   // a search of the provider's vector store
	CodeInterpreter              // a run of code, or its container
	Source                       // a page that was read for a search
	SearchUnit                   // Cohere's unit of a rerank
	Picture                      // a picture of a model that does not bill tokens
	Request                      // the request itself; never counted in Calls

	pieces // how many there are
)

var pieceNames = [pieces]string{"web_search", "x_search", "file_search", "code_interpreter", "source", "search_unit", "image", "request"}

// String returns the name of p in a configuration, such as web_search.
func (p Piece) String() string { return pieceNames[p] }

// Pieces yields all pieces.
func Pieces() iter.Seq[Piece] { return upTo(pieces) }

// Calls is how many of each Piece a request used.
type Calls [pieces]Count

// Tier is a way of serving a request that has a factor on its price.
type Tier uint8

// The tiers. A request may have several: fast, and in one region.
const (
	Flex      Tier = iota // slower
	Priority              // OpenAI's, which it also calls fast
	Fast                  // Anthropic's speed
	Batch                 // done within a day, not at once
	Scale                 // capacity that was bought before
	Optimized             // Bedrock's latency
	US                    // Anthropic's inference in one country
	OtherTier             // a tier that has no name here

	tiers // how many there are
)

var tierNames = [tiers]string{"flex", "priority", "fast", "batch", "scale", "optimized", "us", "other"}

// String returns the name of t in a configuration, such as flex.
func (t Tier) String() string { return tierNames[t] }

// AllTiers yields all tiers.
func AllTiers() iter.Seq[Tier] { return upTo(tiers) }

// Tiers is a set of tiers. The zero Tiers is the standard one.
type Tiers uint8

// Has reports whether t is in s.
func (s Tiers) Has(t Tier) bool { return s&(1<<t) != 0 }

// With returns s and t.
func (s Tiers) With(t Tier) Tiers { return s | 1<<t }

// String returns the names of s, joined by +; empty for the standard tier.
func (s Tiers) String() string {
	var names []string
	for t := range tiers {
		if s.Has(t) {
			names = append(names, t.String())
		}
	}
	return strings.Join(names, "+")
}

// TierOf returns the tier that an API calls name, in any case; the standard one
// for what has the standard price, and OtherTier for a name that is unknown.
func TierOf(name string) Tiers {
	name = strings.ToLower(name)
	name = strings.TrimPrefix(name, "on_demand_")
	switch name {
	case "", "default", "standard", "auto", "standard_only", "on_demand", "ondemand", "payg", "reserved", "provisioned_throughput",
		"traffic_type_unspecified", "unspecified", "global", "not_available", "none":
		return 0
	}
	for t, known := range tierNames {
		if name == known {
			return 1 << t
		}
	}
	return Tiers(0).With(OtherTier)
}

func upTo[T ~uint8](n T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range n {
			if !yield(v) {
				return
			}
		}
	}
}
