package estimate

import (
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/estimate/bpe"
	"llmgw/internal/jsonscan"
)

// reader counts one body at a time.
type reader struct {
	e         *Estimator
	model     model
	operation dialect.Operation
	encoding  *bpe.Encoding
	t         tally
	exactLeft int  // bytes of text that are still counted, not sampled
	counted   int  // bytes of text that were counted
	hasTurn   bool // holds a slot for large requests
	withTools bool // the request has tools or functions
	escaping  bool // text is counted as JSON in ASCII

	sampleLeft                int // bytes of samples that may still be counted
	sampleBytes, sampleTokens int // of all samples so far

	buf, out []byte
}

// kind is what a remembered tally is of.
type kind uint8

const (
	kindMessage kind = iota + 1
	kindMessageWithTools
	kindResult
	kindContent
	kindTools
	kindFunctions
	kindSchema

	kindHistory // added to that of the messages
)

// read counts the body of a call.
func (e *Estimator) read(c *dialect.Call, m model) (tally, error) {
	encoding, err := bpe.Get(m.encoding)
	if err != nil {
		return tally{}, err
	}
	r := e.readers.Get().(*reader)
	defer e.recycle(r)
	r.e, r.model, r.encoding, r.operation = e, m, encoding, c.Endpoint.Operation
	r.t, r.exactLeft, r.withTools = tally{}, e.config.ExactBytes, false
	r.counted, r.hasTurn, r.escaping = 0, false, false
	r.sampleLeft, r.sampleBytes, r.sampleTokens = mostSampled, 0, 0
	defer r.endTurn()
	r.body(c)
	return r.t, nil
}

func (r *reader) endTurn() {
	if r.hasTurn {
		<-r.e.large
	}
}

// mayCount tells whether n more bytes of text may be counted. It waits for a
// turn when they make the request a large one; if none comes in time, all that
// is left is sampled.
func (r *reader) mayCount(n int) bool {
	if n > r.exactLeft {
		return false
	}
	r.exactLeft -= n
	r.counted += n
	if r.counted <= r.e.config.LargeBytes || r.hasTurn {
		return true
	}
	if r.hasTurn = r.e.waitForTurn(); !r.hasTurn {
		r.exactLeft = 0
	}
	return r.hasTurn
}

// waitForTurn takes a slot for a large request; false if none became free in time.
func (e *Estimator) waitForTurn() bool {
	select {
	case e.large <- struct{}{}:
		return true
	default:
	}
	late := time.NewTimer(e.config.LargeWait)
	defer late.Stop()
	select {
	case e.large <- struct{}{}:
		return true
	case <-late.C:
		return false
	}
}

func (e *Estimator) recycle(r *reader) {
	if cap(r.buf) > keptBuffer {
		r.buf = nil
	}
	if cap(r.out) > keptBuffer {
		r.out = nil
	}
	e.readers.Put(r)
}

// body counts a whole body.
func (r *reader) body(c *dialect.Call) {
	if len(c.Members) > 0 {
		var s sections
		for _, m := range c.Members {
			if m.Value.Start >= 0 && m.Value.Start < m.Value.End && m.Value.End <= len(c.Body) {
				s.take(m.Key, c.Body[m.Value.Start:m.Value.End])
			}
		}
		r.sections(&s)
		return
	}
	at := jsonscan.Start(c.Body)
	if jsonscan.KindAt(c.Body, at) == jsonscan.Object {
		r.object(c.Body[at:])
		return
	}
	switch r.operation {
	case dialect.Transcribe:
		file := c.Body
		if !c.Sound.Empty() && c.Sound.End <= len(file) {
			file = file[c.Sound.Start:c.Sound.End]
		}
		r.sound(r.soundTokens(file, ""))
	case dialect.Images:
		r.pictures(c)
	}
}

// object counts an object as if it were a body.
func (r *reader) object(raw []byte) {
	s := sectionsOf(raw)
	r.sections(&s)
}

// wrapped is object for one inside a body. What that wraps in its turn is no
// request to any API, and looking for it would cost a look at all bytes a level.
func (r *reader) wrapped(raw []byte) {
	s := sectionsOf(raw)
	s.wrapped = nil
	r.sections(&s)
}

// sections counts the sections of a body.
func (r *reader) sections(s *sections) {
	r.t.hidden |= s.hidden
	r.withTools = isFilled(s.tools) || isFilled(s.functions)
	r.messages(s.messages)
	if r.operation == dialect.Responses && len(s.texts) > 0 { // instructions are a message
		r.t.overhead += r.model.chat.message + 1
	}
	for _, text := range s.texts {
		r.remember(kindContent, text, (*reader).wholeContent)
	}
	r.remember(kindContent, s.content, (*reader).wholeContent)
	r.prompts(s.prompt)
	r.prompts(s.context) // Ollama's ids of what came before
	r.inputs(s.input)
	r.allImages(s.images)
	r.allTools(s)
	r.formats(s)
	switch jsonscan.KindAt(s.wrapped, 0) {
	case jsonscan.Array:
		r.each(s.wrapped, (*reader).wrapped)
	case jsonscan.Object:
		r.wrapped(s.wrapped)
	}
}

// messages counts a conversation. Gemini takes a message that is in no list.
func (r *reader) messages(raw []byte) {
	k := kindMessage
	if r.withTools {
		k = kindMessageWithTools
	}
	switch jsonscan.KindAt(raw, 0) {
	case jsonscan.Array:
		r.history(raw, k)
	case jsonscan.Object:
		r.remember(k, raw, (*reader).message)
	default:
		return
	}
	r.t.overhead += r.model.chat.reply
}

// isFilled tells whether raw is an array or object with something in it.
func isFilled(raw []byte) bool {
	switch jsonscan.KindAt(raw, 0) {
	case jsonscan.Array:
		e := jsonscan.ElementsAt(raw, 0)
		return e.Next()
	case jsonscan.Object:
		m := jsonscan.MembersAt(raw, 0)
		return m.Next()
	}
	return false
}

// remember counts raw with f, or takes what the same bytes were counted as
// before.
func (r *reader) remember(k kind, raw []byte, f func(*reader, []byte)) {
	if len(raw) < cachedBytes {
		if len(raw) > 0 {
			f(r, raw)
		}
		return
	}
	key := r.e.cache.keyOf(raw, k, r.model.key)
	if t, ok := r.e.cache.get(key); ok {
		r.t.add(&t)
		return
	}
	sum := r.t
	r.t = tally{}
	f(r, raw)
	if !r.t.sampled {
		r.e.cache.put(key, r.t)
	}
	sum.add(&r.t)
	r.t = sum
}

// wholeContent is content at the top.
func (r *reader) wholeContent(raw []byte) { r.content(raw, 0) }

// prompts counts a prompt: a string, strings, token ids or lists of them, each
// id a token.
func (r *reader) prompts(raw []byte) {
	switch jsonscan.KindAt(raw, 0) {
	case jsonscan.String:
		r.remember(kindContent, raw, (*reader).text)
	case jsonscan.Array:
		r.each(raw, (*reader).promptElement)
	case jsonscan.Object: // of stored prompts the variables are seen
		r.t.hidden |= hiddenContext
		r.content(raw, 0)
	}
}

func (r *reader) promptElement(raw []byte) {
	switch jsonscan.KindAt(raw, 0) {
	case jsonscan.String:
		r.remember(kindContent, raw, (*reader).text)
	case jsonscan.Number:
		r.t.text++
	case jsonscan.Array:
		r.each(raw, func(r *reader, id []byte) {
			if jsonscan.KindAt(id, 0) == jsonscan.Number {
				r.t.text++
			}
		})
	case jsonscan.Object:
		r.remember(kindContent, raw, (*reader).wholeContent)
	}
}

// inputs counts an input: text or ids to embed, or the items of a response.
func (r *reader) inputs(raw []byte) {
	if r.operation != dialect.Responses {
		r.prompts(raw)
		return
	}
	r.t.overhead += r.model.chat.reply
	if jsonscan.KindAt(raw, 0) == jsonscan.String {
		r.t.overhead += r.model.chat.message + 1
		r.remember(kindContent, raw, (*reader).text)
		return
	}
	if jsonscan.KindAt(raw, 0) == jsonscan.Array {
		r.history(raw, kindMessage)
	}
}
