package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// What a file may be. Real ones are far below; beyond it a parser could be made
// to take long or to nest deeply.
const (
	maxFileBytes = 16 << 20
	maxLineBytes = 1 << 20
	maxDepth     = 32
)

// kind is what a node is.
type kind int

const (
	null kind = iota
	scalar
	list
	object
)

func (k kind) String() string {
	return [...]string{"nothing", "a value", "a list", "an object"}[k]
}

// node is a piece of a file: what it says and where.
type node struct {
	kind         kind
	file         string
	line, column int
	raw          string // of a scalar: as the file has it, safe to show
	text         string // of a scalar: with ${…} put in, perhaps a secret
	undefined    bool   // of a scalar: something in raw is not defined, so there is no text
	items        []*node
	entries      []entry
}

// entry is a key of an object with its value.
type entry struct{ key, value *node }

// readTree reads a file's text. The node is nil if the text is no YAML or not
// the plain YAML of this package; the problems say why.
func readTree(name string, src []byte) (*node, []Problem) {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	t := treeReader{name: name}
	if p := unreadable(src); p != nil {
		t.refuse(p.Line, p.Column, p.What)
		return nil, t.problems
	}
	document, err := parse(src)
	if err != nil {
		t.refuse(syntaxProblem(err))
		return nil, t.problems
	}
	root := t.node(document, 0)
	if len(t.problems) > 0 {
		return nil, t.problems
	}
	return root, nil
}

// unreadable finds what the parser should not be given.
func unreadable(src []byte) *Problem {
	if len(src) > maxFileBytes {
		return &Problem{Line: 1, Column: 1, What: fmt.Sprintf("the file has more than %d bytes", maxFileBytes)}
	}
	for i, line := range bytes.Split(src, []byte("\n")) {
		if len(line) > maxLineBytes {
			return &Problem{Line: i + 1, Column: 1, What: fmt.Sprintf("the line has more than %d bytes", maxLineBytes)}
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		for at, column := 0, 1; at < len(line); column++ {
			r, size := utf8.DecodeRune(line[at:])
			if r == utf8.RuneError && size == 1 {
				return &Problem{Line: i + 1, Column: column, What: "this byte is no UTF-8"}
			}
			if r < ' ' && r != '\t' || r == 0x7f || 0x80 <= r && r < 0xa0 || r == 0x2028 || r == 0x2029 {
				return &Problem{Line: i + 1, Column: column, What: fmt.Sprintf("the control character %U does not belong here", r)}
			}
			at += size
		}
	}
	return nil
}

// errParser is the parser's own failure; a file must not be able to stop us.
var errParser = errors.New("the parser cannot read this")

// parse reads the text's only document.
func parse(src []byte) (document *yaml.Node, err error) {
	defer func() {
		if recover() != nil {
			err = errParser
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(src))
	document, second := new(yaml.Node), new(yaml.Node)
	switch err := d.Decode(document); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the file is empty")
	case err != nil:
		return nil, err
	}
	if err := d.Decode(second); !errors.Is(err, io.EOF) {
		if err == nil {
			err = yaml.NewLoadError(yaml.ComposerStage, "a second document: a configuration is one", yaml.Mark{Line: second.Line, Column: second.Column}, nil)
		}
		return nil, err
	}
	return document.Content[0], nil
}

// syntaxProblem places the parser's error at the character where the parser
// stopped, and names where the broken construct began.
func syntaxProblem(err error) (line, column int, what string) {
	at, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return 1, 1, err.Error()
	}
	what = "YAML: " + at.Message
	if began := at.ContextMark; began.Line > 0 && began != at.Mark {
		what += fmt.Sprintf(" (%s that begins at %d:%d)", at.ContextMsg, began.Line, began.Column)
	}
	return max(at.Mark.Line, 1), max(at.Mark.Column, 1), what
}

// treeReader turns the parser's tree into ours.
type treeReader struct {
	name     string
	problems []Problem
}

func (t *treeReader) refuse(line, column int, what string) {
	t.problems = append(t.problems, Problem{File: t.name, Line: line, Column: column, What: what})
}

// node reads y. Whatever a configuration has no use for is refused here, once.
func (t *treeReader) node(y *yaml.Node, depth int) *node {
	n := &node{file: t.name, line: y.Line, column: y.Column}
	switch {
	case depth > maxDepth:
		t.refuse(y.Line, y.Column, fmt.Sprintf("nested deeper than %d", maxDepth))
		return n
	case y.Anchor != "" || y.Kind == yaml.AliasNode:
		t.refuse(y.Line, y.Column, "anchors and aliases are not supported: write the value out")
		return n
	case y.Style&yaml.TaggedStyle != 0:
		t.refuse(y.Line, y.Column, "tags are not supported")
		return n
	}
	switch y.Kind {
	case yaml.ScalarNode:
		if y.ShortTag() != "!!null" {
			n.kind, n.raw, n.text = scalar, y.Value, y.Value
		}
	case yaml.SequenceNode:
		n.kind = list
		for _, item := range y.Content {
			n.items = append(n.items, t.node(item, depth+1))
		}
	case yaml.MappingNode:
		n.kind = object
		for i := 0; i+1 < len(y.Content); i += 2 {
			n.entries = append(n.entries, entry{t.key(y.Content[i]), t.node(y.Content[i+1], depth+1)})
		}
	}
	return n
}

// key reads the key of an object, which is a plain word.
func (t *treeReader) key(y *yaml.Node) *node {
	switch {
	case y.Kind == yaml.ScalarNode && y.ShortTag() == "!!merge":
		t.refuse(y.Line, y.Column, "merge keys are not supported: write the keys out")
	case y.Kind != yaml.ScalarNode || y.Anchor != "" || y.Style&yaml.TaggedStyle != 0:
		t.refuse(y.Line, y.Column, "a key must be a plain word")
	}
	return &node{kind: scalar, file: t.name, line: y.Line, column: y.Column, raw: y.Value, text: y.Value}
}
