// Package dialect says what the gateway reads from a request, what it watches
// in an answer, and how it speaks back, in terms that all APIs share. Each
// sub-package is one API. Nothing here sends anything.
package dialect

import (
	"net/textproto"

	"llmgw/internal/fault"
	"llmgw/internal/jsonscan"
	"llmgw/internal/tokens"
)

// Header is a set of HTTP headers with canonical names.
type Header = textproto.MIMEHeader

// Operation is the kind of work that an endpoint does.
type Operation string

// The operations. The values are those of the OpenTelemetry GenAI conventions
// (gen_ai.operation.name) where these have one.
const (
	Chat        Operation = "chat"
	Completion  Operation = "text_completion"
	Responses   Operation = "responses"
	Embeddings  Operation = "embeddings"
	Moderation  Operation = "moderation"
	CountTokens Operation = "count_tokens"
	Images      Operation = "images"
	Speech      Operation = "speech"
	Transcribe  Operation = "transcription"
	Rerank      Operation = "rerank"
	Stored      Operation = "stored" // reading or ending something kept by the provider
)

// Endpoint is one operation at one path of an API.
type Endpoint struct {
	Method string
	// Pattern is its path, such as /v1/models/:model; :model:action is a segment
	// that ends with an action, which may follow any model.
	Pattern   string
	Operation Operation
	// Alias says that this is another path of an endpoint that stands before it.
	Alias bool
}

// Request is what a client sent. Body is whole, decoded from its
// Content-Encoding, and must not be changed.
type Request struct {
	Endpoint Endpoint
	Path     string // as sent, without the query
	Query    string // raw
	Header   Header
	Body     []byte
	Params   map[string]string // of the pattern
}

// Call is what the gateway needs to know of a request. Offsets are into Body.
type Call struct {
	Request
	Dialect string // name of the Dialect that parsed it
	Model   string // as the client named it
	// ModelSpan is where the model's JSON string stands in Body, quotes
	// included; empty if it stands elsewhere (in the path).
	ModelSpan Span
	Stream    bool // the client asked for a stream
	// MaxOutput is the largest bound on output tokens that the request sets, for
	// one choice; meaningful if HasMaxOutput.
	MaxOutput    tokens.Count
	HasMaxOutput bool
	// UnsetOutput says that the request sets none, and that MaxOutput is the default
	// of OpenAI's own servers, which others may not have: see Bounded.
	UnsetOutput bool
	// MaxOutputParam is the field that a bound would be written into, for
	// cap_output.
	MaxOutputParam string
	// Choices is how many answers are generated: n, or best_of × prompts. ≥ 1
	Choices tokens.Count
	// User is the end user that the body names, Session a conversation of that
	// user; or empty.
	User, Session string
	// WantsUsage says that the client asked to see usage in a stream.
	WantsUsage bool
	// StreamOptions is where the client's own stream_options value stands, or
	// empty. IncludeUsage is where its include_usage value stands, or empty.
	StreamOptions, IncludeUsage Span
	// BodyObject is where the body's top-level object starts: its brace.
	BodyObject int
	// Sound is where the file of a call of Transcribe stands in Body, or empty.
	Sound Span
	// Picture is what a call of Images asks for.
	Picture Picture
	// NoOutput says that the operation produces no output tokens.
	NoOutput bool
	// Detached says that the provider goes on with the call when its client
	// leaves, and keeps the answer for later.
	Detached bool
	// RequestsOnly says that the call draws on limits of requests (and
	// concurrency) alone, as counting endpoints do.
	RequestsOnly bool
	// Members are the body's top-level members in order, for readers that look
	// deeper (the estimator): decoded key, and span of the value.
	Members []Member
}

// Picture is what a request for pictures says that they will be.
type Picture struct {
	// Size, Quality and Fidelity (of its sources) are as the request has them;
	// empty: it has none.
	Size, Quality, Fidelity string
	// Partial is how many unfinished pictures are sent before each.
	Partial tokens.Count
	// Prompt and Sources are of a form: where its text stands in Body, and how
	// many pictures it holds. Those of a JSON body are Members.
	Prompt  Span
	Sources int
}

// Bounded reports whether MaxOutput bounds the output of a server of a flavor.
func (c *Call) Bounded(f *Flavor) bool { return c.HasMaxOutput && (!c.UnsetOutput || f.DefaultBound) }

// Span is a half-open range of byte offsets. The zero Span is empty.
type Span = jsonscan.Span

// Member is one member of a JSON object.
type Member struct {
	Key   string
	Value Span
}

// Upstream is where a call goes.
type Upstream struct {
	Provider   string
	Dialect    string // the provider's; empty: the call's own
	Flavor     string // of the openai dialect
	BaseURL    string
	APIVersion string
	Region     string
	APIKey     string
	Model      string // as the provider names it
	// InjectUsage asks for usage in the stream where the client did not.
	InjectUsage bool
	// MaxOutput is written into the request if above 0 and the client set none.
	MaxOutput tokens.Count
}

// Outbound is a call as it goes to a provider.
type Outbound struct {
	Method string
	URL    string
	// Header is all that is sent beside what the transport adds: the client's
	// end-to-end headers without its credentials, with the provider's.
	Header Header
	// Body is sent in order. The segments may alias Call.Body.
	Body [][]byte
	// Injected says that usage was asked for on the client's behalf, so that
	// the answer's usage must be hidden.
	Injected bool
}

// Answer is the head of a provider's answer.
type Answer struct {
	Status int
	Header Header
}

// Counter counts the tokens of text that a model produced.
type Counter func(text []byte) tokens.Count

// Meter watches one answer on its way to the client. It is used by one
// goroutine at a time. Its memory is bounded whatever it is fed, and it never
// panics on bad input.
type Meter interface {
	// Feed takes the next bytes of the answer, as they came, and returns the
	// bytes that the client gets now: the same, but for usage that it did not
	// ask for. The result may alias p or the Meter's own memory, and holds until
	// the next call.
	Feed(p []byte) []byte
	// End says that no more bytes come and returns what was still held back. It
	// is called at every ending, also of an answer that was cut: what reads a
	// compressed answer is released there. A second End returns nothing.
	End() []byte
	// Report tells what was seen so far. It may be called at any time.
	Report() Report
	// Due is that of Report, at no cost.
	Due() bool
}

// Report is what a Meter has seen.
type Report struct {
	Usage tokens.Usage
	// InputKnown and OutputKnown say which sides of Usage the provider reported.
	InputKnown, OutputKnown bool
	// TierKnown says that the provider named the tier that it served the request
	// in, which is then in Usage.
	TierKnown bool
	// Counted is the output counted by ourselves from what came: for answers
	// without usage. Text, reasoning and tool arguments are included.
	Counted tokens.Count
	// Seconds is how much sound the provider says that it read, where it bills
	// that instead of tokens; else 0.
	Seconds int64
	// Stream says that the answer comes as events, the last of which ends it.
	Stream bool
	// Complete says that the answer ended as the API ends it: a whole document,
	// or the stream's terminal event. Of what is neither, such as sound, only
	// the end of the transfer tells.
	Complete bool
	// Due says that all of a stream that a client reads has come, and the usage
	// that the provider reports behind it has not; Billed, that it has come too.
	Due, Billed bool
	// Unreadable says that the answer is not what its header says, no JSON or in
	// another or an unknown encoding; Counted is then by its size.
	Unreadable bool
	// Failure is the error document or event that came, or nil.
	Failure *Failure
	// FailedFirst says that it came before any output, whatever came behind it.
	FailedFirst bool
	// Between says that what Feed has returned ends between two events of a
	// stream, so that an ErrorEvent may follow (instead of what End returns).
	Between bool
	// Events is the number of stream events seen, comments not included; 1 for
	// a whole document.
	Events int
	// Content says that output has begun: some text, tool call or reasoning.
	Content bool
	Finish  string // the provider's finish reason of the first choice
	Model   string // as the answer names it
	ID      string // as the answer names itself
}

// Failure is a provider's error as its body tells it.
type Failure struct {
	Type, Code, Message string
	Status              int // if the body names one
}

// Document is a whole answer of the gateway's own.
type Document struct {
	ContentType string
	Header      Header // extra headers of this dialect; may be nil
	Body        []byte
}

// MeterOptions says how an answer is watched.
type MeterOptions struct {
	// HideUsage removes usage from a stream: it was asked for on the client's
	// behalf. Dialects whose clients always see usage take no notice.
	HideUsage bool
	Count     Counter // must not be nil
	Flavor    string
}

// Dialect is one API. Implementations are stateless, safe for concurrent use,
// and pass dialecttest.Run.
type Dialect interface {
	Name() string
	// Profile is what is particular to the API and its providers.
	Profile() *Profile
	Endpoints() []Endpoint
	// Parse reads a request. Its errors are *fault.Error with Param.
	Parse(r Request) (*Call, error)
	// Prepare makes the outbound request of a call to one upstream.
	Prepare(c *Call, to Upstream) (Outbound, error)
	// Meter returns a meter for the answer to c.
	Meter(c *Call, a Answer, o MeterOptions) Meter
	// Refusal gives a fault the shape of this API.
	Refusal(e *fault.Error, requestID string) Document
	// ErrorEvent is the stream event that ends a broken stream, framed and
	// ready to be written; nil if the API has none.
	ErrorEvent(e *fault.Error, requestID string) []byte
}
