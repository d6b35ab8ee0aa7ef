package watch

import (
	"llmgw/internal/jsonscan"
	"llmgw/internal/tokens"
)

// counts is a report of usage, as far as it goes.
type counts struct {
	n   [lastCount - firstCount + 1]tokens.Count
	set uint64
}

func (c *counts) put(f Field, n tokens.Count) {
	c.n[f-firstCount] = n
	c.set |= 1 << (f - firstCount)
}

func (c *counts) get(f Field) tokens.Count { return c.n[f-firstCount] }

func (c *counts) has(fields ...Field) bool {
	for _, f := range fields {
		if c.set&(1<<(f-firstCount)) != 0 {
			return true
		}
	}
	return false
}

// zero tells whether nothing in c is above 0.
func (c *counts) zero() bool { return c.n == [len(c.n)]tokens.Count{} }

// merge overwrites c field by field with what later tells.
func (c *counts) merge(later *counts) {
	for f := firstCount; f <= lastCount; f++ {
		if later.has(f) {
			c.put(f, later.get(f))
		}
	}
}

// add adds what another pass used.
func (c *counts) add(pass *counts) {
	for f := firstCount; f <= lastCount; f++ {
		if pass.has(f) {
			c.put(f, tokens.Add(c.get(f), pass.get(f)))
		}
	}
}

// read takes a count from a document. What is no count is left out, and so is a
// figure beyond all counts: charged, it would end a month's budget; a cached
// part that is told under several names is the largest of them.
func (c *counts) read(f Field, value []byte) {
	n, flaw := jsonscan.Integer(value)
	if flaw != jsonscan.NoFlaw || n > int64(tokens.MaxCount) {
		return
	}
	count := tokens.Count(n)
	if f == Cached {
		count = max(count, c.get(Cached))
	}
	c.put(f, count)
}

// usage is the normal form of c.
//
// Where the total is more than its parts the rest is output: reasoning that
// xAI and Gemini's compatible endpoint do not count in it. Where the cached part
// is more than its whole, as xAI may report, it stands beside it, and the total
// may have it or not.
func (c *counts) usage() tokens.Usage {
	prompt := c.get(Prompt)
	if !c.has(Prompt) && c.has(Fresh) {
		prompt = tokens.Add(c.get(Fresh), c.get(Cached))
	}
	u := tokens.Usage{
		Input:       tokens.Add(prompt, c.get(PromptApart)),
		CachedInput: tokens.Add(c.get(Cached), c.get(CacheApart)),
		CacheWrite:  tokens.Add(c.get(Written), c.get(WrittenApart)),
		Output:      tokens.Add(c.get(Output), c.get(ThoughtsApart)),
		Reasoning:   tokens.Add(c.get(Reasoning), c.get(ThoughtsApart)),
	}
	if c.get(Cached) > c.get(Prompt) && c.has(Prompt) {
		u.Input = tokens.Add(u.Input, c.get(Cached))
	}
	beside := u.Input - min(u.Input, tokens.Add(prompt, c.get(PromptApart)))
	u.Input = tokens.Add(u.Input, tokens.Add(c.get(CacheApart), c.get(WrittenApart)))
	if rest := c.get(Total) - (u.Total() - beside); c.has(Prompt) && rest > 0 {
		if beside > 0 && rest >= beside && rest != u.Reasoning {
			rest -= beside
		}
		u.Output = tokens.Add(u.Output, rest)
	}
	u.CacheWrite = min(u.CacheWrite, u.Input-min(u.CachedInput, u.Input))
	if loose := c.get(LooseReasoning); loose > u.Output {
		u.Output, u.Reasoning = tokens.Add(u.Output, loose), loose
	} else {
		u.Reasoning = min(max(u.Reasoning, loose), u.Output)
	}
	c.parts(&u)
	return u
}

// counted are the pieces that providers count themselves, with their fields.
var counted = map[tokens.Piece]Field{
	tokens.WebSearch: Searches, tokens.XSearch: PostSearch, tokens.FileSearch: FileSearch,
	tokens.CodeInterpreter: CodeRuns, tokens.Source: Sources, tokens.SearchUnit: SearchUnits,
}

// parts fills in what is billed apart.
func (c *counts) parts(u *tokens.Usage) {
	u.Citations = c.get(CitationApart)
	u.Input = tokens.Add(u.Input, u.Citations)
	u.CacheWrite1h = min(c.get(WrittenLong), u.CacheWrite)
	u.AudioInput = min(c.get(AudioIn), u.Input)
	u.CachedAudio = min(c.get(AudioCached), u.CachedInput, u.AudioInput)
	u.ImageInput = min(c.get(ImageIn), u.Input)
	u.AudioOutput = min(c.get(AudioOut), u.Output)
	u.ImageOutput = min(c.get(ImageOut), u.Output)
	for piece, field := range counted {
		u.Calls[piece] = c.get(field)
	}
}

func (c *counts) inputKnown() bool {
	return c.has(Prompt, PromptApart, CacheApart, WrittenApart, Fresh)
}

func (c *counts) outputKnown() bool {
	return c.has(Output, ThoughtsApart) || c.has(Prompt) && c.get(Total) > c.usage().Input
}
