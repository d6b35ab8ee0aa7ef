package config

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// What a file may be. Real ones are far below; beyond it a parser could be made
// to take long or to nest deeply.
const (
	maxFileBytes = 1 << 20
	maxLineBytes = 8 << 10
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
	line, column int
	raw          string // of a scalar: as the file has it, safe to show
	text         string // of a scalar: with ${…} put in, perhaps a secret
	items        []*node
	entries      []entry
}

// entry is a key of an object with its value.
type entry struct{ key, value *node }

// readTree reads a file's text. The node is nil if the text is no YAML or not
// the plain YAML of this package; the problems say why.
func readTree(name string, src []byte) (*node, []Problem) {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if p := unreadable(src); p != nil {
		p.File = name
		return nil, []Problem{*p}
	}
	tokens := lexer.Tokenize(string(src))
	if p := tooDeep(tokens); p != nil {
		p.File = name
		return nil, []Problem{*p}
	}
	file, err := parse(tokens)
	if err != nil {
		p := syntaxProblem(err)
		p.File = name
		return nil, []Problem{p}
	}
	t := treeReader{name: name}
	root := t.document(file)
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

// tooDeep finds brackets nested deeper than any configuration. (Blocks are
// bounded by the length of a line.)
func tooDeep(tokens token.Tokens) *Problem {
	depth := 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		}
		if depth > maxDepth {
			return &Problem{Line: t.Position.Line, Column: t.Position.Column, What: fmt.Sprintf("nested deeper than %d", maxDepth)}
		}
	}
	return nil
}

// errParser is the parser's own failure; a file must not be able to stop us.
var errParser = errors.New("the YAML parser cannot read this")

// parse builds the syntax tree. The parser has been seen to panic on files that
// are no YAML, which is the file's fault and not ours.
func parse(tokens token.Tokens) (file *ast.File, err error) {
	defer func() {
		if recover() != nil {
			err = errParser
		}
	}()
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// syntaxProblem is the parser's error with its place.
func syntaxProblem(err error) Problem {
	p := Problem{Line: 1, Column: 1, What: err.Error()}
	if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		p.What = "YAML: " + syntax.Message
		if syntax.Token != nil {
			p.Line, p.Column = syntax.Token.Position.Line, syntax.Token.Position.Column
		}
	}
	return p
}

// treeReader turns the parser's tree into ours.
type treeReader struct {
	name     string
	problems []Problem
}

func (t *treeReader) refuse(at *token.Token, what string) *node {
	p := Problem{File: t.name, Line: 1, Column: 1, What: what}
	if at != nil {
		p.Line, p.Column = at.Position.Line, at.Position.Column
	}
	t.problems = append(t.problems, p)
	return &node{line: p.Line, column: p.Column}
}

// document reads the file's only document.
func (t *treeReader) document(file *ast.File) *node {
	var root *node
	for _, doc := range file.Docs {
		if doc.Body == nil || isComment(doc.Body) {
			continue
		}
		if root != nil {
			return t.refuse(start(doc.Body), "a second document: a configuration is one")
		}
		root = t.node(doc.Body, 0)
	}
	if root == nil {
		return t.refuse(nil, "the file is empty")
	}
	return root
}

func isComment(n ast.Node) bool {
	_, ok := n.(*ast.CommentGroupNode)
	return ok
}

// node reads n. Whatever a configuration has no use for is refused here, once.
func (t *treeReader) node(n ast.Node, depth int) *node {
	if depth > maxDepth {
		return t.refuse(start(n), fmt.Sprintf("nested deeper than %d", maxDepth))
	}
	switch n := n.(type) {
	case nil:
		return t.refuse(nil, "a value is missing")
	case *ast.NullNode:
		return &node{kind: null, line: n.Token.Position.Line, column: n.Token.Position.Column}
	case *ast.StringNode:
		return scalarNode(n.Token, n.Value)
	case *ast.LiteralNode:
		return scalarNode(n.Start, n.Value.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return scalarNode(n.GetToken(), n.GetToken().Value)
	case *ast.SequenceNode:
		return t.list(n, depth)
	case *ast.MappingNode:
		return t.object(start(n), n.Values, depth)
	case *ast.MappingValueNode: // a block of one key
		return t.object(start(n), []*ast.MappingValueNode{n}, depth)
	case *ast.AnchorNode, *ast.AliasNode:
		return t.refuse(start(n), "anchors and aliases are not supported: write the value out")
	case *ast.TagNode:
		return t.refuse(start(n), "tags are not supported")
	case *ast.DirectiveNode:
		return t.refuse(start(n), "directives are not supported")
	default:
		return t.refuse(start(n), "this is not supported in a configuration")
	}
}

func scalarNode(at *token.Token, text string) *node {
	return &node{kind: scalar, line: at.Position.Line, column: at.Position.Column, raw: text, text: text}
}

func (t *treeReader) list(n *ast.SequenceNode, depth int) *node {
	at := start(n)
	l := &node{kind: list, line: at.Position.Line, column: at.Position.Column}
	for _, v := range n.Values {
		l.items = append(l.items, t.node(v, depth+1))
	}
	return l
}

func (t *treeReader) object(at *token.Token, values []*ast.MappingValueNode, depth int) *node {
	o := &node{kind: object, line: at.Position.Line, column: at.Position.Column}
	for _, v := range values {
		o.entries = append(o.entries, entry{t.key(v.Key), t.node(v.Value, depth+1)})
	}
	return o
}

func (t *treeReader) key(k ast.MapKeyNode) *node {
	if k.IsMergeKey() {
		return t.refuse(k.GetToken(), "merge keys are not supported: write the keys out")
	}
	switch k := k.(type) {
	case *ast.StringNode:
		return scalarNode(k.Token, k.Value)
	case *ast.NullNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return scalarNode(k.GetToken(), k.GetToken().Value)
	default:
		return t.refuse(start(k), "a key must be a plain word")
	}
}

// start is the first token of n: of a block its first key or dash, where the
// parser's own token is a colon.
func start(n ast.Node) *token.Token {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return start(n.Values[0])
		}
		return n.Start
	case *ast.MappingValueNode:
		return start(n.Key)
	default:
		return n.GetToken()
	}
}
