package jsonscan

// Members walks the members of one object:
//
//	for m := jsonscan.MembersAt(data, at); m.Next(); {
//		m.Key(); m.Value()
//	}
//
// Every value is validated as it is passed.
type Members struct {
	level
	look Look
}

// Elements walks the elements of one array, as Members does an object.
type Elements struct{ level }

// MembersAt returns a walk over the object whose brace stands at offset at. If
// none stands there the walk is empty and Err says so.
func MembersAt(data []byte, at int) Members { return LookAt(data, at, nil) }

// LookAt is MembersAt with a look at the keys of values that are passed, in the
// same pass. Keys of an object with a syntax error may have been looked at.
func LookAt(data []byte, at int, look Look) Members { return Members{open(data, at, '{'), look} }

// ElementsAt returns a walk over the array whose bracket stands at offset at.
func ElementsAt(data []byte, at int) Elements { return Elements{open(data, at, '[')} }

// level is a place inside an object or array.
type level struct {
	data  []byte
	next  int // where to go on
	key   Span
	value Span
	began bool // a value has been passed
	done  bool
	err   error
}

func open(data []byte, at int, bracket byte) level {
	if at < 0 || at >= len(data) || data[at] != bracket {
		what := "an object is missing"
		if bracket == '[' {
			what = "an array is missing"
		}
		return level{done: true, err: &Error{max(at, 0), what}}
	}
	return level{data: data, next: at + 1}
}

// Value returns where the value stands.
func (l *level) Value() Span { return l.value }

// Bytes returns the value's text, which aliases the data.
func (l *level) Bytes() []byte { return l.value.Of(l.data) }

// Kind returns the value's kind.
func (l *level) Kind() Kind { return KindAt(l.data, l.value.Start) }

// Err returns why the walk ended early, or nil.
func (l *level) Err() error { return l.err }

// End returns the offset behind the closing bracket once the walk has ended
// without an error.
func (l *level) End() int { return l.next }

// enter moves to the start of the next key or element; false if there is none.
func (l *level) enter(closing byte) bool {
	if l.done {
		return false
	}
	i := space(l.data, l.next)
	if i < len(l.data) && l.data[i] == closing {
		l.next, l.done = i+1, true
		return false
	}
	if l.began {
		if i >= len(l.data) || l.data[i] != ',' {
			return l.fail(&Error{i, "a comma or the end of the level is missing"})
		}
		i = space(l.data, i+1)
	}
	l.next = i
	return true
}

// pass passes the value at offset at.
func (l *level) pass(at int) bool {
	end, err := Skip(l.data, at)
	return l.passed(at, end, err)
}

// passed notes the value that was passed.
func (l *level) passed(at, end int, err error) bool {
	if err != nil {
		return l.fail(err)
	}
	l.value, l.next, l.began = Span{at, end}, end, true
	return true
}

func (l *level) fail(err error) bool {
	l.err, l.done = err, true
	return false
}

// Next moves to the next member; false at the end or at an error.
func (m *Members) Next() bool {
	if !m.enter('}') {
		return false
	}
	end, at, err := skipKey(m.data, m.next)
	if err != nil {
		return m.fail(err)
	}
	m.key = Span{m.next, end}
	if m.look != nil && m.look(m.key.Of(m.data), 0) && at < len(m.data) && (m.data[at] == '{' || m.data[at] == '[') {
		end, err := skipNested(m.data, at, m.look)
		return m.passed(at, end, err)
	}
	return m.pass(at)
}

// KeySpan returns where the key's string stands, quotes included.
func (m *Members) KeySpan() Span { return m.key }

// Key returns the decoded key; it aliases the data if the key has no escape.
func (m *Members) Key() []byte { return Text(m.key.Of(m.data), nil) }

// Is tells whether the decoded key is name.
func (m *Members) Is(name string) bool {
	raw := m.data[m.key.Start+1 : m.key.End-1]
	if string(raw) == name {
		return true
	}
	return string(m.Key()) == name // it may be escaped
}

// Next moves to the next element; false at the end or at an error.
func (e *Elements) Next() bool { return e.enter(']') && e.pass(e.next) }

// Find returns the value of the member called name of the object at offset at:
// the last one, as most parsers do. ok is false if there is none, or no object.
func Find(data []byte, at int, name string) (value Span, ok bool) {
	m := MembersAt(data, at)
	for m.Next() {
		if m.Is(name) {
			value, ok = m.value, true
		}
	}
	return value, ok && m.err == nil
}
