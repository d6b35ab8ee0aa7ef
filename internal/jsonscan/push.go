package jsonscan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// Node is a place in a document that a Push looks at. Everything that no Node
// describes is passed over.
type Node struct {
	// ID is what the Visitor is told of a value here. 0: it is told nothing.
	ID int
	// Long says that a string here may be long: it comes by Visitor.Part, and
	// not by Visitor.Scalar.
	Long bool
	// Fields are the members of an object here, by their decoded keys.
	Fields map[string]*Node
	// Each is every element of an array here.
	Each *Node
}

// Visitor is told what stands at the Nodes with an ID, in the document's order.
type Visitor interface {
	// Open tells that an object or array begins, Close that it has ended.
	Open(id int, kind Kind)
	Close(id int, kind Kind)
	// Scalar tells a whole value: a number or word as it is written, a string
	// decoded and cut at MaxScalar. value holds until the call returns.
	Scalar(id int, kind Kind, value []byte)
	// Part tells the next piece of a long string, decoded; a piece may end
	// within a character. Part(id, nil) tells that the string has ended.
	Part(id int, piece []byte)
}

const (
	// MaxScalar is the most of a short string that a Visitor is told.
	MaxScalar = 1024
	// MaxPath is how deep a Node may lie below the root.
	MaxPath = 12
	// maxKey is the longest key that a Node may have.
	maxKey = 64
)

// Push reads one JSON text that arrives in pieces, cut anywhere, and tells its
// Visitor what stands at the Nodes of its tree. Its memory does not grow with
// the text, whatever the text holds.
//
//	value ──{──► key ──:──► value        after ──,──► key or value
//	      ──[──► value                         ──}]─► after the level
//	      ──"──► text                    outside the tree: pass and passText
//
// It checks what it needs in order not to be misled, not all of the grammar:
// a text with an error is read up to it, or is Broken.
type Push struct {
	visitor Visitor
	state   state
	first   bool // just inside a level: it may end at once
	inKey   bool // the string being read is a key
	hex     int8 // digits of an escape still to come
	depth   int8 // open levels inside the tree
	pass    int  // open levels outside of it
	passed  Kind // the outermost of these
	point   rune // of the escape being read
	high    rune // a high surrogate that waits for its other half
	node    *Node
	stack   [MaxPath]place
	text    []byte // of the key or short value being read
}

type place struct {
	node   *Node
	object bool
}

type state uint8

const (
	atValue state = iota
	atKey
	atColon
	after
	inString
	inEscape
	inWord
	passLevel
	passText
	passEscape
	done
	broken
)

// Start makes p read a new text by the tree below root.
func (p *Push) Start(root *Node, v Visitor) {
	text := p.text[:0]
	*p = Push{visitor: v, node: root, text: text}
}

// Done tells whether a whole text has been read.
func (p *Push) Done() bool { return p.state == done }

// Broken tells whether the text was found not to be JSON.
func (p *Push) Broken() bool { return p.state == broken }

// End says that the text has ended: a number that is the whole text ends only
// so.
func (p *Push) End() {
	if p.state == inWord && p.depth == 0 {
		p.endScalar(kindOf(p.text[0]))
	}
}

// Write reads the next piece.
func (p *Push) Write(b []byte) {
	for i := 0; i < len(b) && p.state != broken; {
		i = p.step(b, i)
	}
}

// step reads some bytes from b[i] on and returns where it stopped.
func (p *Push) step(b []byte, i int) int {
	switch p.state {
	case inString:
		return p.readString(b, i)
	case inEscape:
		return p.readEscape(b, i)
	case inWord:
		return p.readWord(b, i)
	case passLevel:
		return p.passLevels(b, i)
	case passText:
		return p.passString(b, i)
	case passEscape:
		p.state = passText
		return i + 1
	}
	c := b[i]
	if c == ' ' || c == '\n' || c == '\r' || c == '\t' {
		return i + 1
	}
	switch p.state {
	case atValue:
		p.begin(c)
	case atKey:
		p.key(c)
	case atColon:
		p.state = atValue
		if c != ':' {
			p.state = broken
		}
	case after:
		p.between(c)
	default: // done: nothing may follow
		p.state = broken
	}
	return i + 1
}

// begin reads the first byte of a value.
func (p *Push) begin(c byte) {
	if c == ']' && p.first && !p.top().object {
		p.closeLevel()
		return
	}
	p.first = false
	kind := kindOf(c)
	switch {
	case kind == None:
		if !p.mark(c) {
			p.state = broken
		}
	case kind == Object || kind == Array:
		p.open(kind)
	case kind == String:
		p.text = p.text[:0]
		p.state = inString
		if p.node == nil || p.node.ID == 0 {
			p.state = passText
		}
	default:
		p.text = append(p.text[:0], c)
		p.state = inWord
	}
}

// mark tells whether c is of a byte order mark before the text.
func (p *Push) mark(c byte) bool {
	return p.depth == 0 && (c == 0xEF || c == 0xBB || c == 0xBF)
}

func (p *Push) open(kind Kind) {
	if p.node == nil || int(p.depth) == MaxPath || kind == Array && p.node.Each == nil || kind == Object && p.node.Fields == nil {
		if p.node != nil && p.node.ID != 0 {
			p.visitor.Open(p.node.ID, kind)
		}
		p.state, p.pass, p.passed = passLevel, 1, kind
		return
	}
	if p.node.ID != 0 {
		p.visitor.Open(p.node.ID, kind)
	}
	p.stack[p.depth] = place{p.node, kind == Object}
	p.depth++
	p.first = true
	p.state = atKey
	if kind == Array {
		p.state, p.node = atValue, p.node.Each
	}
}

func (p *Push) top() place {
	if p.depth == 0 {
		return place{object: true} // no bracket closes the outside
	}
	return p.stack[p.depth-1]
}

func (p *Push) key(c byte) {
	switch {
	case c == '"':
		p.text = p.text[:0]
		p.state, p.inKey, p.first = inString, true, false
	case c == '}' && p.first:
		p.closeLevel()
	default:
		p.state = broken
	}
}

// between reads what follows a value inside a level.
func (p *Push) between(c byte) {
	level := p.top()
	switch {
	case c == ',' && level.object:
		p.state = atKey
	case c == ',':
		p.state, p.node = atValue, level.node.Each
	case c == '}' && level.object, c == ']' && !level.object:
		p.closeLevel()
	default:
		p.state = broken
	}
}

func (p *Push) closeLevel() {
	p.depth--
	level := p.stack[p.depth]
	kind := Array
	if level.object {
		kind = Object
	}
	p.first = false
	if level.node.ID != 0 {
		p.visitor.Close(level.node.ID, kind)
	}
	p.endValue()
}

// endValue goes on behind a value.
func (p *Push) endValue() {
	p.state = after
	if p.depth == 0 {
		p.state = done
	}
}

func (p *Push) endScalar(kind Kind) {
	if p.node != nil && p.node.ID != 0 {
		if kind == String && p.node.Long {
			p.visitor.Part(p.node.ID, nil)
		} else {
			p.visitor.Scalar(p.node.ID, kind, p.text)
		}
	}
	p.endValue()
}

func (p *Push) readString(b []byte, i int) int {
	end := plain(b, i)
	if end > i {
		p.flushHigh()
		p.emit(b[i:end])
	}
	if end == len(b) {
		return end
	}
	switch b[end] {
	case '\\':
		p.state, p.hex = inEscape, 0
	case '"':
		p.flushHigh()
		p.endString()
	default:
		p.state = broken
	}
	return end + 1
}

func (p *Push) endString() {
	if !p.inKey {
		p.endScalar(String)
		return
	}
	p.inKey, p.state = false, atColon
	p.node = nil
	if len(p.text) <= maxKey {
		p.node = p.top().node.Fields[string(p.text)]
	}
}

// emit takes decoded text of the string being read.
func (p *Push) emit(piece []byte) {
	if !p.inKey && p.node.Long {
		p.visitor.Part(p.node.ID, piece)
		return
	}
	most := MaxScalar
	if p.inKey {
		most = maxKey + 1
	}
	p.text = append(p.text, piece[:min(len(piece), most-len(p.text))]...)
}

func (p *Push) emitRune(r rune) {
	var buf [utf8.UTFMax]byte
	p.emit(utf8.AppendRune(buf[:0], r))
}

// flushHigh gives up on a high surrogate whose other half did not come.
func (p *Push) flushHigh() {
	if p.high != 0 {
		p.high = 0
		p.emitRune(utf8.RuneError)
	}
}

func (p *Push) readEscape(b []byte, i int) int {
	c := b[i]
	if p.hex == 0 {
		if c == 'u' {
			p.hex, p.point = 4, 0
			return i + 1
		}
		if bytes.IndexByte([]byte(`"\/bfnrt`), c) < 0 {
			p.state = broken
			return i
		}
		p.flushHigh()
		p.emitRune(simple(c))
		p.state = inString
		return i + 1
	}
	d := hexDigit(c)
	if d < 0 {
		p.state = broken
		return i
	}
	p.point = p.point<<4 | d
	if p.hex--; p.hex == 0 {
		p.state = inString
		p.endPoint()
	}
	return i + 1
}

// endPoint takes a \u escape, a surrogate pair as one.
func (p *Push) endPoint() {
	if p.high != 0 {
		if pair := utf16.DecodeRune(p.high, p.point); pair != utf8.RuneError {
			p.high = 0
			p.emitRune(pair)
			return
		}
		p.flushHigh()
	}
	if 0xD800 <= p.point && p.point < 0xDC00 {
		p.high = p.point
		return
	}
	p.emitRune(p.point) // a lone low surrogate is written as U+FFFD
}

func (p *Push) readWord(b []byte, i int) int {
	for ; i < len(b); i++ {
		switch b[i] {
		case ',', '}', ']', ' ', '\n', '\r', '\t':
			p.endWord()
			return i
		}
		if len(p.text) < maxWord {
			p.text = append(p.text, b[i])
		}
	}
	return i
}

// maxWord is the longest number or word that is read; a longer one is none.
const maxWord = 64

func (p *Push) endWord() {
	kind := kindOf(p.text[0])
	if p.node != nil && p.node.ID != 0 {
		if end, err := skipScalar(p.text, 0); err != nil || end != len(p.text) {
			p.state = broken
			return
		}
	}
	p.endScalar(kind)
}

// passLevels passes over objects and arrays that no Node describes.
func (p *Push) passLevels(b []byte, i int) int {
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			p.state = passText
			return i + 1
		case '{', '[':
			p.pass++
		case '}', ']':
			if p.pass--; p.pass == 0 {
				p.endPassed()
				return i + 1
			}
		}
	}
	return i
}

func (p *Push) endPassed() {
	if p.node != nil && p.node.ID != 0 {
		p.visitor.Close(p.node.ID, p.passed)
	}
	p.endValue()
}

func (p *Push) passString(b []byte, i int) int {
	end := plain(b, i)
	if end == len(b) {
		return end
	}
	switch b[end] {
	case '\\':
		p.state = passEscape
	case '"':
		p.state = passLevel
		if p.pass == 0 {
			p.endValue()
		}
	default:
		p.state = broken
	}
	return end + 1
}
