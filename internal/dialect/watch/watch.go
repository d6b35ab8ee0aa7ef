// Package watch is the Meter that all dialects share. What differs between
// APIs is a table: which place of a document means what. This package reads
// answers by such a table; it makes and changes no request, and knows no API by
// name.
//
// This file has the API, which is a set of tables; fields.go has their
// vocabulary. reading.go takes the meaning of one event after another, with
// counts.go and billed.go for usage, text.go for text that is counted, failure.go for errors
// and embedded.go for documents within documents. meter.go frames an answer and
// reports; hide.go takes usage out of a stream, chunk.go out of one chunk and
// blank.go out of one that is too large to be held; decode.go reads compressed
// answers.
//
// An answer is never held: its JSON is read as it comes, whatever its size.
// Only where usage is hidden is the current event kept back, up to maxHeld.
package watch

import (
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/stream"
	"llmgw/internal/jsonscan"
)

// API says how the answers of one endpoint are read. It must not be changed
// once in use.
type API struct {
	// Document is the tree of a whole answer, Event that of a stream's event.
	Document, Event *jsonscan.Node
	// Ends are the kinds of event that end a stream as it should end, with the
	// finish reason that they stand for, or "". If nil, a stream is complete at
	// [DONE], or once each choice that began has finished.
	Ends map[string]string
	// ItemDone is the kind of event that has one Item, which is over. Other events
	// have Items only at an end, where all are listed. If empty, each event lists
	// all Items so far.
	ItemDone string
	// Closes are the kinds of event after which nothing but usage may follow, as
	// after the end of each choice that began.
	Closes map[string]bool
	// Pending holds the finish reasons of a whole answer that is not over yet.
	Pending map[string]bool
	// Says holds the kinds of event whose TypedText is text.
	Says map[string]bool
	// OmitsZero says that counts of 0 are left out, so that an answer that
	// ended without output or counts used nothing.
	OmitsZero bool
	// Plain says that a whole answer may be something else than JSON.
	Plain bool
	// Array says that a JSON answer to a stream call is a list of events.
	Array bool
	// Foreign says that whole answers are of anybody's making: one that says
	// nothing in a place that is known is taken for unreadable.
	Foreign bool
	// Hideable says that usage can be hidden: it is OpenAI's chat stream.
	Hideable bool
	// Searches says that an answer with content made one search of the web, unless
	// it says how many.
	Searches bool
	// Inner is how documents in Embedded places are read.
	Inner *API
	// Headers, if not nil, reads usage from the answer's headers.
	Headers func(h dialect.Header, set func(f Field, value string))
}

// format tells how an answer carries its events.
func (api *API) format(c *dialect.Call, a dialect.Answer) stream.Format {
	if a.Status >= 400 {
		return stream.Document
	}
	switch kind := contentType(a.Header); {
	case kind == "text/event-stream":
		return stream.SSE
	case strings.HasSuffix(kind, "ndjson") || strings.HasSuffix(kind, "jsonl"):
		return stream.Lines
	case kind == "application/vnd.amazon.eventstream":
		return stream.Frames
	case api.Array && c.Stream:
		return stream.Array
	case c.Stream && (kind == "" || kind == "text/plain"):
		return stream.SSE // a server that does not say what it sends
	}
	return stream.Document
}

func contentType(h dialect.Header) string {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

func isJSON(kind string) bool {
	return kind == "" || strings.HasSuffix(kind, "json")
}
