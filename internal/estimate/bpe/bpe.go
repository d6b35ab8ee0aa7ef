// Package bpe counts the tokens of OpenAI's encodings: exactly, in linear time
// whatever the text, and without allocating. It knows nothing of messages,
// models' overheads or other providers; package estimate does.
//
// A text is cut into pieces by hand-written splitters (split.go) over our own
// tables of Unicode 17 (class.go, class_table.go). Most pieces are one token,
// which a hash table tells (table.go). The others are encoded by backtracking
// over longest matches (backtrack.go), found in a trie (trie.go) and checked
// pair by pair (vocabulary.go); two kinds of hostile piece have their own way:
// one byte repeated (repeat.go), and those that make the backtracking long
// (merge.go). Text that looks like a special token is text.
package bpe

import (
	"fmt"
	"path"
	"runtime"
	"sync"

	"github.com/pkoukk/tiktoken-go-loader/assets"
)

// Encoding counts with one vocabulary. It is safe for concurrent use.
type Encoding struct {
	name  string
	split splitter
	vocab *vocabulary
	// idle are counters that nobody uses now. Counting takes one out, or makes
	// one, and puts it back if there is room.
	idle chan *counter
}

// lazily are the encodings, each built when first asked for and then kept.
var lazily = map[string]func() (*Encoding, error){
	"o200k_base":  sync.OnceValues(func() (*Encoding, error) { return build("o200k_base", splitO200K) }),
	"cl100k_base": sync.OnceValues(func() (*Encoding, error) { return build("cl100k_base", splitCL100K) }),
	"p50k_base":   sync.OnceValues(func() (*Encoding, error) { return build("p50k_base", splitGPT2) }),
	"r50k_base":   sync.OnceValues(func() (*Encoding, error) { return build("r50k_base", splitGPT2) }),
}

// aliases are encodings that differ from another in special tokens alone.
var aliases = map[string]string{
	"o200k_harmony": "o200k_base",
	"p50k_edit":     "p50k_base",
	"gpt2":          "r50k_base",
}

// Known tells whether Get has an encoding of this name.
func Known(name string) bool {
	_, direct := lazily[name]
	_, alias := aliases[name]
	return direct || alias
}

// Get returns the encoding of a name: o200k_base, cl100k_base, p50k_base,
// r50k_base, or one that counts text as these do (o200k_harmony, p50k_edit,
// gpt2). The first call for each takes some tenths of a second, and others for
// the same wait for it. The error is for an unknown name.
func Get(name string) (*Encoding, error) {
	if base, ok := aliases[name]; ok {
		name = base
	}
	get, ok := lazily[name]
	if !ok {
		return nil, fmt.Errorf("unknown encoding %q", name)
	}
	return get()
}

func build(name string, split splitter) (*Encoding, error) {
	text, err := assets.Assets.ReadFile(path.Base(name + ".tiktoken"))
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	tokens, err := parseRanks(text)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	v, err := newVocabulary(tokens)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	return &Encoding{
		name: name, split: split, vocab: v,
		idle: make(chan *counter, runtime.GOMAXPROCS(0)),
	}, nil
}

// Name is the encoding's own name, never an alias.
func (e *Encoding) Name() string { return e.name }

// Count returns the number of tokens of text.
func (e *Encoding) Count(text []byte) int {
	if len(text) == 0 {
		return 0
	}
	c := e.take()
	n := c.count(text)
	e.give(c)
	return n
}

// Append appends the tokens of text to ids.
func (e *Encoding) Append(ids []uint32, text []byte) []uint32 {
	c := e.take()
	ids = c.encode(ids, text)
	e.give(c)
	return ids
}

// CountParallel is Count with up to workers goroutines. It is worth it above
// 100 KB when cores are idle.
func (e *Encoding) CountParallel(text []byte, workers int) int {
	cut := 0
	if workers > 1 {
		cut = safeCut(text, len(text)/workers)
	}
	if cut == 0 {
		return e.Count(text)
	}
	rest := make(chan int)
	go func() { rest <- e.CountParallel(text[cut:], workers-1) }()
	n := e.Count(text[:cut])
	return n + <-rest
}

// safeCut returns a place at or after at where a piece ends in all encodings
// whatever stands around it: between a letter or digit of ASCII and a blank or
// line feed. 0: there is none.
func safeCut(text []byte, at int) int {
	for i := max(at, 1); i < len(text); i++ {
		if text[i] != ' ' && text[i] != '\n' {
			continue
		}
		if c := asciiClass[text[i-1]]; c&(letters|number) != 0 {
			return i
		}
	}
	return 0
}

// Cut returns a place at or after at where text can be cut so that the counts
// of both sides add up to that of the whole, or 0 if there is none.
func Cut(text []byte, at int) int { return safeCut(text, at) }

func (e *Encoding) take() *counter {
	select {
	case c := <-e.idle:
		return c
	default:
		return newCounter(e.split, e.vocab)
	}
}

func (e *Encoding) give(c *counter) {
	select {
	case e.idle <- c:
	default:
	}
}
