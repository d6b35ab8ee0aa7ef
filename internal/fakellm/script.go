package fakellm

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Script is what a model's name asks for. ParseScript makes one.
type Script struct {
	// What is said. Output, Report, Input, Size and Chunks are -1 where the name
	// does not set them.
	Output    int64 // tokens produced, if the request's maximum allows it
	Report    int64 // output tokens reported, whatever was produced
	Input     int64 // input tokens reported
	Cached    int64 // of them read from a cache
	Written   int64 // of them written to a cache
	Reasoning int64 // output tokens that are reasoning
	Size      int64 // bytes of text, in place of Output
	Tool      bool  // a tool call, not text
	Once      bool  // text all the same where the request holds a tool's result
	Wide      bool  // text of characters of two to four bytes

	// When. Wait and Every are -1 where the name leaves them to Options.
	Wait, Hold, Every, Tail time.Duration

	// A stream's chunks and usage.
	Chunks     int64 // -1: one for each token, at most 1,000
	Big        int64 // bytes of the second chunk's text; 0: as the others
	NoDone     bool
	NoUsage    bool
	ZeroUsage  bool
	Unasked    bool // usage in a stream though not asked for
	Continuous bool // usage so far on every chunk
	OnFinish   bool // usage on the chunk with the finish reason

	// Framing.
	CRLF, CR, BOM, Comments, NoSpace, Lines, NoBlank, Gzip bool
	Bytes                                                  bool // one write and one flush for each byte
	BytesEvery                                             time.Duration

	// Failures.
	Fail      int   // status; 0: none
	FailTimes int64 // of the first requests for this name; 0: always
	After     time.Duration
	Quota     bool
	Drop      bool
	BadJSON   bool
	HTML      bool
	NoOptions bool // stream_options is an unknown field

	// Where a stream breaks, in content chunks sent; -1: it does not. A Hang of
	// hangAtOnce comes before the headers.
	Cut, End, Hang, Err int64
}

// hangAtOnce is a hang before anything is sent.
const hangAtOnce = -2

// directive is one word of the grammar.
type directive struct {
	word, arg, help string
	set             func(*Script, string) error
}

// The largest values that a script may ask for.
const (
	maxTokens = 1 << 40
	maxOutput = 2_000_000
	maxBytes  = 64 << 20
	maxChunks = 1_000_000
	maxPause  = time.Hour
)

// grammar is every directive, in the order in which Usage explains them.
var grammar = []directive{
	{"out", "N", "produce N output tokens (16); fewer if the request's maximum is lower (finish: length)", number(maxOutput, func(s *Script) *int64 { return &s.Output })},
	{"size", "N[k|m]", "produce N bytes of text instead", size(func(s *Script) *int64 { return &s.Size })},
	{"in", "N", "report N input tokens (else a quarter of the prompt's bytes)", number(maxTokens, func(s *Script) *int64 { return &s.Input })},
	{"report", "N", "report N output tokens, whatever was produced", number(maxTokens, func(s *Script) *int64 { return &s.Report })},
	{"cached", "N", "of the input, N were read from a cache", number(maxTokens, func(s *Script) *int64 { return &s.Cached })},
	{"write", "N", "of the input, N were written to a cache", number(maxTokens, func(s *Script) *int64 { return &s.Written })},
	{"reason", "N", "of the output, N are reasoning, which is not shown", number(maxOutput, func(s *Script) *int64 { return &s.Reasoning })},
	{"tool", "", "call the first tool of the request instead of talking", toggle(func(s *Script) *bool { return &s.Tool })},
	{"once", "", "but talk if the request holds a tool's result", toggle(func(s *Script) *bool { return &s.Once })},
	{"wide", "", "talk in characters of two to four bytes", toggle(func(s *Script) *bool { return &s.Wide })},

	{"wait", "DUR", "wait before the headers", pause(func(s *Script) *time.Duration { return &s.Wait })},
	{"hold", "DUR", "wait between the headers and the first chunk", pause(func(s *Script) *time.Duration { return &s.Hold })},
	{"every", "DUR", "one chunk every DUR", pause(func(s *Script) *time.Duration { return &s.Every })},
	{"tail", "DUR", "keep the connection for DUR after the last event", pause(func(s *Script) *time.Duration { return &s.Tail })},

	{"chunks", "N", "stream the text in N chunks (one for each token)", number(maxChunks, func(s *Script) *int64 { return &s.Chunks })},
	{"big", "N[k|m]", "the second chunk has N bytes of text, in one data line", size(func(s *Script) *int64 { return &s.Big })},
	{"nodone", "", "end without the terminal event", toggle(func(s *Script) *bool { return &s.NoDone })},
	{"nousage", "", "never report usage", toggle(func(s *Script) *bool { return &s.NoUsage })},
	{"zerousage", "", "report a usage of zeros", toggle(func(s *Script) *bool { return &s.ZeroUsage })},
	{"unasked", "", "report usage in a stream that did not ask for it", toggle(func(s *Script) *bool { return &s.Unasked })},
	{"continuous", "", "report the usage so far on every chunk", toggle(func(s *Script) *bool { return &s.Continuous })},
	{"onfinish", "", "report usage on the chunk that has the finish reason", toggle(func(s *Script) *bool { return &s.OnFinish })},

	{"crlf", "", "end lines with CR LF", toggle(func(s *Script) *bool { return &s.CRLF })},
	{"cr", "", "end lines with CR", toggle(func(s *Script) *bool { return &s.CR })},
	{"bom", "", "start the stream with a byte order mark", toggle(func(s *Script) *bool { return &s.BOM })},
	{"comments", "", "send a comment before every event", toggle(func(s *Script) *bool { return &s.Comments })},
	{"nospace", "", "no space after data:", toggle(func(s *Script) *bool { return &s.NoSpace })},
	{"lines", "", "spread each event over two data lines", toggle(func(s *Script) *bool { return &s.Lines })},
	{"noblank", "", "leave out the blank line after the last event", toggle(func(s *Script) *bool { return &s.NoBlank })},
	{"bytes", "[DUR]", "write byte by byte, DUR apart", everyByte},
	{"gzip", "", "compress, if the client accepts that", toggle(func(s *Script) *bool { return &s.Gzip })},

	{"fail", "S[xN]", "answer status S, or only the first N requests for this name", fail},
	{"after", "DUR", "with retry-after and retry-after-ms on that", pause(func(s *Script) *time.Duration { return &s.After })},
	{"quota", "", "let that failure be a spent quota, not a rate", toggle(func(s *Script) *bool { return &s.Quota })},
	{"drop", "", "reset the connection instead of answering", toggle(func(s *Script) *bool { return &s.Drop })},
	{"cut", "[N]", "reset it after N chunks (0), or in the middle of a document", place(0, func(s *Script) *int64 { return &s.Cut })},
	{"end", "[N]", "end the stream after N chunks (0), cleanly but without its last events", place(0, func(s *Script) *int64 { return &s.End })},
	{"hang", "[N]", "fall silent after N chunks (before the headers) until the client leaves", place(hangAtOnce, func(s *Script) *int64 { return &s.Hang })},
	{"err", "[N]", "send an error event after N chunks (0) and end", place(0, func(s *Script) *int64 { return &s.Err })},
	{"badjson", "", "answer 200 with broken JSON", toggle(func(s *Script) *bool { return &s.BadJSON })},
	{"html", "", "answer 200 with a web page", toggle(func(s *Script) *bool { return &s.HTML })},
	{"noopts", "", "refuse stream_options as an unknown field", toggle(func(s *Script) *bool { return &s.NoOptions })},
	{"tag", "N", "nothing: makes the name another one, with its own count of requests", number(maxTokens, func(*Script) *int64 { return new(int64) })},
}

// isScript tells whether a model's name is one.
func isScript(name string) bool { return name == "sim" || strings.HasPrefix(name, "sim-") }

// ParseScript reads a model's name, such as sim-out50-every20ms-cut10. It
// returns an error that names the first word it does not know.
func ParseScript(name string) (Script, error) {
	s := Script{
		Output: -1, Report: -1, Input: -1, Size: -1, Chunks: -1,
		Cut: -1, End: -1, Hang: -1, Err: -1, Wait: -1, Every: -1,
	}
	words := strings.Split(name, "-")
	if words[0] != "sim" {
		return s, fmt.Errorf("script %q does not start with sim", name)
	}
	for _, word := range words[1:] {
		letters, value := split(word)
		if err := apply(&s, letters, value); err != nil {
			return s, fmt.Errorf("script %q: %q: %w", name, word, err)
		}
	}
	return s, nil
}

// split parts a word into its letters and what follows from the first digit on.
func split(word string) (letters, value string) {
	i := strings.IndexAny(word, "0123456789")
	if i < 0 {
		return word, ""
	}
	return word[:i], word[i:]
}

func apply(s *Script, letters, value string) error {
	for _, d := range grammar {
		if d.word != letters {
			continue
		}
		if value == "" && d.arg != "" && d.arg[0] != '[' {
			return fmt.Errorf("needs %s", d.arg)
		}
		return d.set(s, value)
	}
	return fmt.Errorf("unknown word")
}

// with fills in what the name leaves to the provider's options.
func (s Script) with(o Options) Script {
	if s.Wait < 0 {
		s.Wait = o.Latency
	}
	if s.Every < 0 {
		s.Every = o.ChunkInterval
	}
	return s
}

func toggle(field func(*Script) *bool) func(*Script, string) error {
	return func(s *Script, value string) error {
		if value != "" {
			return fmt.Errorf("takes no value")
		}
		*field(s) = true
		return nil
	}
}

func number(most int64, field func(*Script) *int64) func(*Script, string) error {
	return func(s *Script, value string) error {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 || n > most {
			return fmt.Errorf("want a number from 0 to %d", most)
		}
		*field(s) = n
		return nil
	}
}

// place is a position in the stream, or absent where the word stands alone.
func place(absent int64, field func(*Script) *int64) func(*Script, string) error {
	read := number(maxChunks, field)
	return func(s *Script, value string) error {
		if value == "" {
			*field(s) = absent
			return nil
		}
		return read(s, value)
	}
}

func size(field func(*Script) *int64) func(*Script, string) error {
	return func(s *Script, value string) error {
		unit := int64(1)
		switch {
		case strings.HasSuffix(value, "k"):
			unit = 1 << 10
		case strings.HasSuffix(value, "m"):
			unit = 1 << 20
		}
		n, err := strconv.ParseInt(strings.TrimRight(value, "km"), 10, 64)
		if err != nil || n < 0 || n > maxBytes/unit {
			return fmt.Errorf("want a size up to 64m")
		}
		*field(s) = n * unit
		return nil
	}
}

func pause(field func(*Script) *time.Duration) func(*Script, string) error {
	return func(s *Script, value string) error {
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 || d > maxPause {
			return fmt.Errorf("want a duration up to 1h")
		}
		*field(s) = d
		return nil
	}
}

func everyByte(s *Script, value string) error {
	s.Bytes = true
	if value == "" {
		return nil
	}
	return pause(func(s *Script) *time.Duration { return &s.BytesEvery })(s, value)
}

// fail reads a status and how often it comes: 500 or 500x2.
func fail(s *Script, value string) error {
	status, times, limited := strings.Cut(value, "x")
	n, err := strconv.Atoi(status)
	if err != nil || n < 400 || n > 599 {
		return fmt.Errorf("want a status from 400 to 599")
	}
	s.Fail, s.FailTimes = n, 0
	if !limited {
		return nil
	}
	s.FailTimes, err = strconv.ParseInt(times, 10, 64)
	if err != nil || s.FailTimes < 1 {
		return fmt.Errorf("want x and a number of times")
	}
	return nil
}

// Usage explains scripts to people, for llmgw provider --help.
var Usage = explain()

func explain() string {
	var b strings.Builder
	b.WriteString("A model's name that starts with sim is a script: words joined by dashes, such as\n" +
		"sim-out50-in20-every20ms-cut10. Other names follow the default script. The words:\n\n")
	for _, d := range grammar {
		fmt.Fprintf(&b, "  %-12s %s\n", d.word+d.arg, d.help)
	}
	b.WriteString("\nGET /sim/stats tells what was seen, POST /sim/reset forgets it.\n")
	return b.String()
}
