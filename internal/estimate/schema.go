package estimate

import (
	"bytes"

	"llmgw/internal/jsonscan"
)

// declarations renders functions as OpenAI shows them to its models: as
// declarations in a TypeScript namespace. How they are laid out is not
// published: both layouts were found by comparing such text with bills, and
// explain every one of them.
type declarations struct {
	layout layout
	out    []byte
}

// layout is how an object's properties are laid out.
type layout uint8

const (
	// functionsLayout is that of the parameter functions: each property on a
	// line of its own, indented by two a level; descriptions of inner ones are
	// left out.
	functionsLayout layout = iota
	// toolsLayout is that of the parameter tools: no indent, and all
	// descriptions; an object none of whose properties has one is on one line.
	toolsLayout
)

// schemaDepth is how deep schemas are rendered; what is deeper stays JSON, as
// what has no place in such a declaration does.
const schemaDepth = 12

// describedDepth is the indent from which descriptions are left out.
const describedDepth = 2

func (d *declarations) open()  { d.add("namespace functions {\n\n") }
func (d *declarations) close() { d.add("} // namespace functions") }

func (d *declarations) add(s string) { d.out = append(d.out, s...) }

// text adds what a JSON string says.
func (d *declarations) text(token []byte) { d.out = jsonscan.AppendText(d.out, token) }

// function renders one function's object.
func (d *declarations) function(raw []byte) {
	if description := find(raw, "description"); len(description) > 2 && description[0] == '"' {
		d.add("// ")
		d.text(description)
		d.add("\n")
	}
	d.add("type ")
	d.text(find(raw, "name"))
	parameters := find(raw, "parameters")
	if parameters == nil {
		parameters = find(raw, "input_schema")
	}
	properties := find(parameters, "properties")
	if !isFilled(properties) {
		d.add(" = () => any;\n\n")
	} else {
		d.add(" = (_: ")
		d.object(properties, find(parameters, "required"), 0, 0)
		d.add(") => any;\n\n")
	}
	for _, name := range [...]string{"$defs", "definitions", "anyOf", "oneOf", "allOf"} {
		if more := find(parameters, name); isFilled(more) {
			d.json(more)
		}
	}
}

// json adds a value as it is, but for white space.
func (d *declarations) json(raw []byte) { d.out = compact(d.out, raw) }

// object renders a type with properties.
func (d *declarations) object(properties, required []byte, indent, depth int) {
	if d.layout == toolsLayout && !described(properties) {
		d.add("{ ")
		d.inline(properties, required, depth)
		d.add(" }")
		return
	}
	d.add("{\n")
	d.properties(properties, required, indent, depth)
	d.add("\n}")
}

// described tells whether a property has a description.
func described(properties []byte) bool {
	for m := jsonscan.MembersAt(properties, 0); m.Next(); {
		if description := find(m.Bytes(), "description"); len(description) > 2 {
			return true
		}
	}
	return false
}

// inline renders an object's properties on one line.
func (d *declarations) inline(raw, required []byte, depth int) {
	must := names(required)
	first := true
	for m := jsonscan.MembersAt(raw, 0); m.Next(); {
		if !first {
			d.add(", ")
		}
		first = false
		d.property(m.Key(), m.Bytes(), must, 0, depth)
	}
}

// property renders a property's name and type.
func (d *declarations) property(name, schema []byte, must map[string]struct{}, indent, depth int) {
	d.out = append(d.out, name...)
	if _, ok := must[string(name)]; !ok {
		d.add("?")
	}
	d.add(": ")
	d.schema(schema, indent, depth+1)
}

// properties renders an object's properties, each on its line.
func (d *declarations) properties(raw, required []byte, indent, depth int) {
	must := names(required)
	first := true
	for m := jsonscan.MembersAt(raw, 0); m.Next(); {
		if !first {
			d.add("\n")
		}
		first = false
		schema := m.Bytes()
		if description := find(schema, "description"); len(description) > 2 && (d.layout == toolsLayout || indent < describedDepth) {
			d.indent(indent)
			d.add("// ")
			d.text(description)
			d.add("\n")
		}
		d.indent(indent)
		d.property(m.Key(), schema, must, indent, depth)
		d.add(",")
	}
}

func (d *declarations) indent(n int) {
	if d.layout == toolsLayout {
		return
	}
	for range n {
		d.out = append(d.out, ' ')
	}
}

// names returns the strings of an array.
func names(raw []byte) map[string]struct{} {
	if jsonscan.KindAt(raw, 0) != jsonscan.Array {
		return nil
	}
	all := map[string]struct{}{}
	for e := jsonscan.ElementsAt(raw, 0); e.Next(); {
		all[string(jsonscan.Text(e.Bytes(), nil))] = struct{}{}
	}
	return all
}

// schema renders the type that a schema describes.
func (d *declarations) schema(raw []byte, indent, depth int) {
	if depth > schemaDepth {
		d.json(raw)
		return
	}
	for _, name := range [...]string{"anyOf", "oneOf", "allOf"} {
		if options := find(raw, name); jsonscan.KindAt(options, 0) == jsonscan.Array {
			d.union(options, func(e []byte) { d.schema(e, indent, depth+1) })
			return
		}
	}
	kind := find(raw, "type")
	if jsonscan.KindAt(kind, 0) == jsonscan.Array { // "string" or null, and the like
		d.union(kind, func(e []byte) { d.named(string(bytes.ToLower(unescaped(e))), raw, indent, depth) })
		return
	}
	d.named(string(bytes.ToLower(unescaped(kind))), raw, indent, depth)
}

// named renders a schema whose type has a name.
func (d *declarations) named(kind string, raw []byte, indent, depth int) {
	switch kind {
	case "string", "number", "integer", "boolean":
		if enum := find(raw, "enum"); isFilled(enum) && jsonscan.KindAt(enum, 0) == jsonscan.Array {
			d.union(enum, d.literal)
			return
		}
		if kind == "integer" {
			kind = "number"
		}
		d.add(kind)
	case "object":
		d.object(find(raw, "properties"), find(raw, "required"), indent+2, depth)
	case "array":
		if items := find(raw, "items"); jsonscan.KindAt(items, 0) == jsonscan.Object {
			d.schema(items, indent, depth+1)
		} else {
			d.add("any")
		}
		d.add("[]")
	case "null":
		d.add("null")
	default:
		d.untyped(raw, indent, depth)
	}
}

// untyped renders a schema whose type has no name, or one that nobody knows: by
// what it allows, else with all of it that would stand nowhere else.
func (d *declarations) untyped(raw []byte, indent, depth int) {
	if enum := find(raw, "enum"); isFilled(enum) && jsonscan.KindAt(enum, 0) == jsonscan.Array {
		d.union(enum, d.literal)
		return
	}
	if properties := find(raw, "properties"); isFilled(properties) {
		d.object(properties, find(raw, "required"), indent+2, depth)
		return
	}
	d.add("any")
	for m := jsonscan.MembersAt(raw, 0); m.Next(); {
		switch string(m.Key()) {
		case "type", "title", "description", "default":
		default:
			d.json(m.Bytes())
		}
	}
}

// union renders alternatives.
func (d *declarations) union(raw []byte, render func([]byte)) {
	first := true
	for e := jsonscan.ElementsAt(raw, 0); e.Next(); {
		if !first {
			d.add(" | ")
		}
		first = false
		render(e.Bytes())
	}
}

// literal renders a constant.
func (d *declarations) literal(raw []byte) {
	if jsonscan.KindAt(raw, 0) != jsonscan.String {
		d.out = append(d.out, raw...)
		return
	}
	d.add(`"`)
	d.text(raw)
	d.add(`"`)
}
