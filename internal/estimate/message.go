package estimate

import "llmgw/internal/jsonscan"

// message counts one message or item of a conversation, in any API's shape.
// Of members of the same name the last one counts, as it does for providers.
func (r *reader) message(raw []byte) {
	if jsonscan.KindAt(raw, 0) != jsonscan.Object {
		r.content(raw, 0)
		return
	}
	var role, content, name, calls, call []byte
	var names nameSet
	rest := false
	for m := jsonscan.MembersAt(raw, 0); m.Next(); {
		names.add(m.Key())
		switch value := m.Bytes(); string(m.Key()) {
		case "role":
			role = value
		case "content", "parts":
			content = value
		case "name":
			name = value
		case "tool_calls":
			calls = value
		case "function_call":
			call = value
		default:
			rest = true
		}
	}
	chat := &r.model.chat
	r.t.overhead += chat.message
	r.role(role)
	r.content(content, 0)
	if jsonscan.KindAt(name, 0) == jsonscan.String {
		r.text(name)
		r.t.overhead += chat.name
		if string(role) == `"tool"` { // as of a legacy result
			r.t.overhead -= 2
		}
	}
	several := r.calls(calls)
	if jsonscan.KindAt(call, 0) == jsonscan.Object {
		r.part(call, 0)
	}
	if rest {
		r.others(raw, names.last(raw))
	}
	r.t.several = several
	if r.withTools && isSystem(role) && !r.t.system {
		r.t.system = true
		r.t.newline = r.lineFeed(content)
	}
}

// role counts a message's role, which is one token in a chat of OpenAI's.
func (r *reader) role(token []byte) {
	if r.model.family != openAI && r.model.family != unknown {
		return
	}
	switch {
	case string(token) == `"function"`:
		r.t.overhead-- // the role costs one, and a legacy result two less
	case len(token) > 16:
		r.t.overhead += r.count(token)
	case token != nil:
		r.t.overhead++
	}
}

func isSystem(role []byte) bool {
	return string(role) == `"system"` || string(role) == `"developer"`
}

// lineFeed returns how many tokens a line feed behind a message's text costs:
// the first system message gets one when there are tools.
func (r *reader) lineFeed(content []byte) int {
	if jsonscan.KindAt(content, 0) != jsonscan.String || len(content) > r.exactLeft {
		return 0
	}
	r.out = append(jsonscan.AppendText(r.out[:0], content), '\n')
	return r.encoding.Count(r.out) - r.encoding.Count(r.out[:len(r.out)-1])
}

// others counts the members of a message that message itself does not: those
// of items such as calls, their outputs and reasoning.
func (r *reader) others(raw []byte, last lastOf) {
	isCall := false
	for m := jsonscan.MembersAt(raw, 0); m.Next(); {
		if last.hides(&m) {
			continue
		}
		switch key := string(m.Key()); key {
		case "role", "content", "parts", "name", "tool_calls", "function_call":
		default:
			isCall = isCall || key == "arguments"
			r.member(key, m.Bytes(), 0)
		}
	}
	if isCall {
		r.t.overhead += r.model.chat.call
	}
}
