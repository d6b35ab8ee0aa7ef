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

const firstCount, lastCount = Prompt, Total

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
