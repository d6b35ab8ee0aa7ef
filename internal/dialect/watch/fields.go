package watch

import (
	"strings"

	"llmgw/internal/jsonscan"
)

// Field is what a value in an answer means. It is the ID of a jsonscan.Node.
type Field = int

// The fields. Counts that end in Apart are not in the whole that they belong
// to, and are added to it; the others are parts of their whole.
const (
	_ Field = iota

	ID        // the answer's own name
	Model     // the model, as the answer names it
	EventType // the event's kind
	Finish    // why the choice, or the answer, ended
	Choice    // the object of one choice
	Index     // the choice's number
	Ended     // true: the answer is over
	Begun     // anything but null and an empty list: output has begun

	Text       // of the answer
	TypedText  // of the answer, if the event's kind says so
	Thought    // text of the reasoning
	ThoughtToo // the same reasoning under another name: what comes first counts
	ToolText   // names and arguments of tool calls

	Usage         // the object that reports usage
	LastUsage     // one that only a stream's last event has
	Prompt        // tokens read
	PromptApart   // further tokens read
	CacheApart    // tokens read from a cache
	WrittenApart  // tokens written to a cache
	Cached        // of Prompt: read from a cache
	Written       // of Prompt: written to a cache
	Output        // tokens produced
	ThoughtsApart // tokens of reasoning
	Reasoning     // of Output: reasoning
	Fresh         // tokens read but for Cached; taken where Prompt is not told
	Total         // tokens read and produced

	LooseReasoning // reasoning: of Output, or beside it where it is more than that
	WrittenLong    // of what was written to a cache: for an hour
	AudioIn        // of what was read: sound
	AudioCached    // of what was read from a cache: sound
	ImageIn        // of what was read: pictures
	CitationApart  // further tokens read: sources
	AudioOut       // of Output: sound
	ImageOut       // of Output: pictures

	Searches    // searches of the web
	PostSearch  // searches of posts on X
	FileSearch  // searches of a vector store
	CodeRuns    // runs of code
	Sources     // pages read for a search
	SearchUnits // units of a rerank

	Share      // an object that says how many tokens of the prompt have a modality
	ShareMore  // likewise, of further tokens read
	ShareCache // likewise, of what was read from a cache
	ShareOut   // likewise, of the output
	Modality   // its modality
	ShareCount // its count
	Lifetime   // an object that says how many tokens were written to a cache for how long
	TTL        // how long
	TTLCount   // its count

	Item       // an object that is something the provider did
	ItemType   // its type, such as web_search_call
	ItemAction // what it was
	Query      // a search of the web, where each is listed
	Drawn      // a picture; output has begun

	Tier  // how the provider served the request
	Speed // how fast it did
	Geo   // where

	Seconds // of sound that was read, where that is told and no tokens

	Pass     // the object of one pass of several, which Usage may leave out
	PassType // what kind of pass it was

	Object       // the document's kind, which may be "error"
	Failed       // the error, an object or its message; not null or false
	ErrorType    // its type
	ErrorCode    // its code, a string or a status
	ErrorMessage // its message

	Embedded // base64 of another document
)

const firstCount, lastCount = Prompt, SearchUnits

// Places says what stands at which path of a document: keys parted by dots, *
// for each element of a list.
type Places map[string]Field

// Tree makes the tree of all the places.
func Tree(tables ...Places) *jsonscan.Node {
	root := &jsonscan.Node{}
	for _, table := range tables {
		for path, field := range table {
			n := root
			for key := range strings.SplitSeq(path, ".") {
				n = child(n, key)
			}
			n.ID = field
			n.Long = field >= Text && field <= ToolText || field == Embedded
		}
	}
	return root
}

func child(n *jsonscan.Node, key string) *jsonscan.Node {
	if key == "" {
		return n
	}
	if key == "*" {
		if n.Each == nil {
			n.Each = &jsonscan.Node{}
		}
		return n.Each
	}
	if n.Fields == nil {
		n.Fields = map[string]*jsonscan.Node{}
	}
	if n.Fields[key] == nil {
		n.Fields[key] = &jsonscan.Node{}
	}
	return n.Fields[key]
}

// Under puts all of a table below one path.
func (p Places) Under(path string) Places {
	moved := Places{}
	for below, field := range p {
		moved[strings.TrimSuffix(path+"."+below, ".")] = field
	}
	return moved
}

// errors are the places of all the ways to tell an error in a document.
var errorPlaces = Places{
	"error":                     Failed,
	"error.type":                ErrorType,
	"error.status":              ErrorType,
	"error.metadata.error_type": ErrorType,
	"error.code":                ErrorCode,
	"error.message":             ErrorMessage,
	"type":                      ErrorType,
	"__type":                    ErrorType,
	"code":                      ErrorCode,
	"message":                   ErrorMessage,
	"Message":                   ErrorMessage,
	"detail":                    ErrorMessage,
	"detail.*.type":             ErrorType,
	"detail.*.msg":              ErrorMessage,
	"error.details.error_code":  ErrorCode,
}

// errorDocument is how an answer with an error's status is read.
var errorDocument = &API{Document: Tree(errorPlaces, errorPlaces.Under("*"))}
