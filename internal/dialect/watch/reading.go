package watch

import (
	"math"
	"math/bits"
	"strconv"

	"llmgw/internal/dialect"
	"llmgw/internal/jsonscan"
	"llmgw/internal/tokens"
)

// maxKept is the most of a name that is kept.
const maxKept = 128

// reading is what an answer has said so far. As a jsonscan.Visitor it is told
// the places of one event after another:
//
//	begin ─► Open, Scalar, Part, Close … ─► end
type reading struct {
	api  *API
	text text

	counts   counts // merged from all reports
	report   counts // the one being read
	pass     counts // the pass being read
	passes   counts // the sum of those that count
	summed   passSum
	passType string // of the pass being read, or empty
	zeros    bool   // a report said nothing but 0
	seconds  int64  // of sound that was read
	billed   billed

	id, model, finish string
	failure           *dialect.Failure
	content           bool
	began, over       choiceSet
	ended             bool  // by an event or mark that ends a stream
	whole             bool  // all that a client reads has come, as far as one can know
	reported          bool  // and so has a report of usage, with it or behind it
	hides             bool  // this event reports usage, be it null
	thoughts          Field // the name under which reasoning came first

	// Of the current event.
	kind   []byte
	failed bool
	fault  dialect.Failure
	choice choice
	now    progress

	headerType string // the kind of error by a header
	inner      *embedded
}

type passSum uint8

const (
	noPasses    passSum = iota
	somePasses          // passes were told
	topLevelToo         // and one that says that the top level is right
)

// progress is how far an event brings the answer. It counts once the event is
// whole: no client reads one that is cut.
type progress struct {
	began, over choiceSet
	finish      string
	ended       bool
	says        bool // some output
	reports     bool // usage
}

// choice is the one being read.
type choice struct {
	inside bool
	index  int64
	finish string
}

// choiceSet is a set of choices' numbers; those above 127 are left out.
type choiceSet [2]uint64

func (s *choiceSet) add(i int64) {
	if i >= 0 && i < 128 {
		s[i/64] |= 1 << (i % 64)
	}
}

func (s *choiceSet) join(other choiceSet) {
	s[0] |= other[0]
	s[1] |= other[1]
}

func (s *choiceSet) len() int { return bits.OnesCount64(s[0]) + bits.OnesCount64(s[1]) }

// begin forgets the last event.
func (r *reading) begin() {
	r.kind, r.failed, r.hides = r.kind[:0], false, false
	r.fault, r.choice = dialect.Failure{}, choice{}
	r.now = progress{}
	r.billed.now = tokens.Calls{}
}

// call says what the framing calls the event; what the event calls itself goes
// before that.
func (r *reading) call(name []byte) {
	if len(r.kind) == 0 {
		r.kind = append(r.kind, name...)
	}
}

// end takes what the event was.
func (r *reading) end() {
	if string(r.kind) == "error" {
		r.failed = true
	}
	r.began.join(r.now.began)
	r.over.join(r.now.over)
	r.finish = either(r.now.finish, r.finish)
	finish, last := r.api.Ends[string(r.kind)]
	if r.api.ItemDone == "" || last || len(r.kind) == 0 || string(r.kind) == r.api.ItemDone {
		r.billed.endEvent(len(r.kind) > 0 && string(r.kind) == r.api.ItemDone)
	}
	r.ended = r.ended || r.now.ended || last
	r.finish = either(finish, r.finish)
	r.close()
	if r.failed {
		r.fail(r.fault)
	}
}

// close notes whether all that a client reads has come with this event, and the
// report of usage.
func (r *reading) close() {
	switch {
	case r.api.Closes[string(r.kind)], r.finished():
		r.whole = true
	case r.now.says:
		r.whole = false
	}
	r.reported = r.whole && (r.reported || r.now.reports)
}

// finished tells whether every choice that began has ended.
func (r *reading) finished() bool {
	return r.began.len() > 0 && r.began == r.over
}

// Open implements jsonscan.Visitor.
func (r *reading) Open(id int, kind jsonscan.Kind) {
	switch id {
	case Usage, LastUsage:
		r.hides = true
		r.report, r.passes, r.summed = counts{}, counts{}, noPasses
	case Pass:
		r.pass = counts{}
		r.passType = "unknown"
	case Choice:
		r.choice = choice{inside: true}
	case Failed:
		r.failed = true
	case Begun, ToolText, Drawn:
		if kind == jsonscan.Object {
			r.content = true
		}
		if id == Drawn {
			r.billed.now[tokens.Picture]++
		}
	default:
		r.billed.open(id)
	}
}

// Close implements jsonscan.Visitor.
func (r *reading) Close(id int, _ jsonscan.Kind) {
	switch id {
	case Usage, LastUsage:
		r.endReport()
		r.now.ended = r.now.ended || id == LastUsage
	case Pass:
		r.endPass()
	case Choice:
		r.endChoice()
	case Item:
		r.billed.endItem()
	case Share, ShareMore, ShareCache, ShareOut, Lifetime:
		r.billed.endShare(id, &r.report)
	}
}

func (r *reading) endReport() {
	if r.summed == somePasses {
		r.report.merge(&r.passes)
	}
	if r.report.set == 0 {
		return
	}
	if r.report.zero() {
		r.zeros = true // no report, unless nothing else comes
		return
	}
	r.now.reports = r.now.reports || r.report.has(Output, ThoughtsApart, Total)
	r.counts.merge(&r.report)
}

// endPass adds a pass to the sum, by Anthropic's rules: what an advisor said is
// not the answer's, and a fallback makes the top level right.
func (r *reading) endPass() {
	switch r.passType {
	case "compaction", "message":
		r.passes.add(&r.pass)
		r.summed = max(r.summed, somePasses)
	case "fallback_message":
		r.summed = topLevelToo
	}
	r.passType = ""
}

func (r *reading) endChoice() {
	c := r.choice
	r.choice = choice{}
	r.now.began.add(c.index)
	if c.finish == "" {
		return
	}
	r.now.over.add(c.index)
	if c.index == 0 {
		r.now.finish = c.finish
	}
}

// Scalar implements jsonscan.Visitor.
func (r *reading) Scalar(id int, kind jsonscan.Kind, value []byte) {
	if id == Usage {
		r.hides = true
	}
	if kind == jsonscan.Null {
		return
	}
	if id >= firstCount && id <= lastCount {
		if kind == jsonscan.Number {
			r.number(id, value)
		}
		return
	}
	if r.billed.scalar(id, value) {
		return
	}
	switch id {
	case ID:
		r.id = keep(r.id, value)
	case Model:
		r.model = keep(r.model, value)
	case EventType:
		r.kind = append(r.kind[:0], value[:min(len(value), maxKept)]...)
	case Index:
		r.choice.index, _ = jsonscan.Integer(value)
	case Finish:
		r.finishes(value)
	case Ended:
		r.now.ended = r.now.ended || string(value) == "true"
	case Begun:
		r.content = true
	case PassType:
		r.passType = keep("", value)
	case Seconds:
		r.sound(value)
	default:
		r.errorPart(id, kind, value)
	}
}

// maxSeconds is the longest sound that is believed: a day.
const maxSeconds = 24 * 60 * 60

// sound takes a length of sound in seconds, rounded up.
func (r *reading) sound(value []byte) {
	if s, err := strconv.ParseFloat(string(value), 64); err == nil && s > 0 && s <= maxSeconds {
		r.seconds = max(r.seconds, int64(math.Ceil(s)))
	}
}

// keep is the value as a string, or old if it is empty or the same.
func keep(old string, value []byte) string {
	if len(value) == 0 || string(value) == old {
		return old
	}
	return string(value[:min(len(value), maxKept)])
}

func (r *reading) number(f Field, value []byte) {
	if r.passType != "" {
		r.pass.read(f, value)
		return
	}
	r.report.read(f, value)
}

func (r *reading) finishes(value []byte) {
	if len(value) == 0 {
		return
	}
	if r.choice.inside {
		r.choice.finish = keep("", value)
		return
	}
	r.now.finish = keep("", value)
	r.now.began.add(0)
	r.now.over.add(0)
}

// Part implements jsonscan.Visitor.
func (r *reading) Part(id int, piece []byte) {
	if id == Embedded {
		r.embed(piece)
		return
	}
	if len(piece) == 0 {
		return
	}
	switch id {
	case TypedText:
		if !r.api.Says[string(r.kind)] {
			return
		}
	case Thought, ThoughtToo:
		if r.thoughts == 0 {
			r.thoughts = id
		}
		if r.thoughts != id {
			return
		}
	}
	r.content, r.now.says = true, true
	r.text.add(id, piece)
}
