package estimate

import "llmgw/internal/jsonscan"

// allTools counts tools, functions, and the choice among them.
func (r *reader) allTools(s *sections) {
	r.remember(kindTools, s.tools, (*reader).toolList)
	r.remember(kindFunctions, s.functions, (*reader).functionList)
	if config := find(s.toolConfig, "tools"); config != nil { // Bedrock's
		r.withTools = r.withTools || isFilled(config)
		r.remember(kindTools, config, (*reader).toolList)
	}
	r.toolChoice(s)
	if !r.withTools {
		return
	}
	chat := &r.model.chat
	r.t.fixed += chat.tools
	if chat.forcedTools != 0 && (isForced(s.toolChoice) || isForced(find(s.toolConfig, "toolChoice"))) {
		r.t.fixed += chat.forcedTools - chat.tools
	}
	if chat.typescript && r.t.system {
		r.t.fixed += r.t.newline - systemSaving
	}
}

// systemSaving is what functions cost less where there is a system message to
// put them into.
const systemSaving = 4

// What a tool that must be called costs beside its name.
const (
	namedTool     = 7
	namedFunction = 4
)

// toolChoice counts which tool the model is told to use.
func (r *reader) toolChoice(s *sections) {
	if !r.model.chat.typescript {
		return
	}
	for _, choice := range [...]struct {
		value []byte
		named int
	}{{s.toolChoice, namedTool}, {s.functionCall, namedFunction}} {
		switch {
		case string(choice.value) == `"none"`:
			r.t.fixed++
		case jsonscan.KindAt(choice.value, 0) == jsonscan.Object:
			name := find(choice.value, "name")
			if function := find(choice.value, "function"); function != nil {
				name = find(function, "name")
			}
			if name != nil {
				r.t.tools += r.count(name)
				r.t.fixed += choice.named
			}
		}
	}
}

// isForced tells whether Anthropic's tool_choice, or Bedrock's, makes the model
// use a tool.
func isForced(choice []byte) bool {
	kind := string(find(choice, "type"))
	return kind == `"any"` || kind == `"tool"` || find(choice, "any") != nil || find(choice, "tool") != nil
}

// isDeclared tells whether all of a tool is in the request. What a provider runs
// itself, or knows how to describe, brings text of its own.
func isDeclared(tool []byte) bool {
	switch kind := string(find(tool, "type")); kind {
	case `"function"`, `"custom"`:
		return true
	case "":
	default:
		return false
	}
	for _, name := range [...]string{"name", "function", "functionDeclarations", "function_declarations", "toolSpec", "cachePoint"} {
		if find(tool, name) != nil {
			return true
		}
	}
	return false
}

// renderedBytes is the most of tools that is rendered as declarations; more is
// counted as JSON, which is not less.
const renderedBytes = 256 << 10

// toolList counts a list of tools.
func (r *reader) toolList(raw []byte) { r.declare(raw, toolsLayout) }

// functionList counts a list of functions, which are not wrapped in tools.
func (r *reader) functionList(raw []byte) { r.declare(raw, functionsLayout) }

// declare counts a list of tools or functions in a layout.
func (r *reader) declare(raw []byte, layout layout) {
	if !isFilled(raw) {
		return
	}
	if jsonscan.KindAt(raw, 0) != jsonscan.Array {
		r.t.tools += r.json(raw)
		return
	}
	for e := jsonscan.ElementsAt(raw, 0); e.Next() && r.t.hidden&hiddenTools == 0; {
		if !isDeclared(e.Bytes()) {
			r.t.hidden |= hiddenTools
		}
	}
	if !r.model.chat.typescript || len(raw) > renderedBytes {
		r.t.tools += r.json(raw)
		return
	}
	d := declarations{layout: layout, out: r.out[:0]}
	d.open()
	functions := false
	for e := jsonscan.ElementsAt(raw, 0); e.Next(); {
		function := e.Bytes()
		if inner := find(function, "function"); inner != nil {
			function = inner
		}
		if name := find(function, "name"); name != nil && isFunction(e.Bytes()) {
			d.function(function)
			functions = true
		}
	}
	d.close()
	r.out = d.out
	if functions {
		r.t.tools += r.plain(d.out)
	}
	for e := jsonscan.ElementsAt(raw, 0); e.Next(); {
		if !isFunction(e.Bytes()) {
			r.t.tools += r.json(e.Bytes())
		}
	}
}

// isFunction tells whether a tool is a function, as legacy ones are without
// saying so.
func isFunction(tool []byte) bool {
	kind := find(tool, "type")
	return kind == nil || string(kind) == `"function"`
}

// schemaMargin is what a schema for the answer costs beside its text, and
// jsonMargin what asking for JSON costs. Nothing is published; both are guesses
// that users of the API have found near.
const (
	schemaMargin = 15
	jsonMargin   = 10
)

// formats counts the form that an answer must have.
func (r *reader) formats(s *sections) {
	if jsonscan.KindAt(s.format, 0) == jsonscan.Object {
		r.remember(kindSchema, s.format, (*reader).format)
	}
	if jsonscan.KindAt(s.generation, 0) != jsonscan.Object {
		return
	}
	for _, name := range [...]string{"responseSchema", "responseJsonSchema", "response_schema", "_responseJsonSchema"} {
		if schema := find(s.generation, name); jsonscan.KindAt(schema, 0) == jsonscan.Object {
			r.t.tools += r.json(schema)
			r.t.fixed += schemaMargin
		}
	}
}

// format counts response_format and what other APIs have in its place.
func (r *reader) format(raw []byte) {
	if inner := find(raw, "format"); inner != nil {
		raw = inner
	}
	switch string(find(raw, "type")) {
	case `"text"`:
	case `"json_object"`:
		r.t.fixed += jsonMargin
		for _, name := range [...]string{"json_schema", "schema"} { // Cohere's; Together's and others'
			if schema := find(raw, name); jsonscan.KindAt(schema, 0) == jsonscan.Object {
				r.t.tools += r.json(schema)
			}
		}
	case `"json_schema"`:
		if inner := find(raw, "json_schema"); inner != nil {
			raw = inner
		}
		for _, name := range [...]string{"name", "description"} {
			r.t.tools += r.count(find(raw, name))
		}
		if schema := find(raw, "schema"); schema != nil {
			r.t.tools += r.json(schema)
		}
		r.t.fixed += schemaMargin
	case "":
		if find(raw, "properties") == nil && find(raw, "anyOf") == nil && find(raw, "$ref") == nil {
			return // settings of another kind
		}
		fallthrough
	default: // a schema without anything around it
		r.t.tools += r.json(raw)
		r.t.fixed += schemaMargin
	}
}
