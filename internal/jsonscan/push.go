package jsonscan

// Node is a place in a document that a Push looks at. Everything that no Node
// describes is passed over.
type Node struct {
	// ID is what the Visitor is told of a value here. 0: it is told nothing.
	ID int
	// Long says that a string here may be long: it comes by Visitor.Part, and
	// not by Visitor.Scalar. An object or array that has no Nodes within comes so
	// too, as it is written.
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
	// Part tells the next piece of a long string, decoded, or of a long object or
	// array; a piece may end within a character. Part(id, nil) tells that the
	// string has ended.
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
		p.endWord()
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
		p.raw(b[i : i+1])
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
	switch kind {
	case None:
		if !p.mark(c) {
			p.state = broken
		}
	case Object, Array:
		p.open(kind)
	case String:
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
		p.raw(brackets[kind])
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

// brackets are how what is passed over begins.
var brackets = [...][]byte{Array: []byte("["), Object: []byte("{")}

// raw tells a piece of what is passed over, if the Node is told that.
func (p *Push) raw(piece []byte) {
	if p.node != nil && p.node.Long && len(piece) > 0 {
		p.visitor.Part(p.node.ID, piece)
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
