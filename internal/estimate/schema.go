package estimate

import (
	"bytes"

	"llmgw/internal/jsonscan"
)

// declarations renders functions as OpenAI shows them to its models: as
// declarations in a TypeScript namespace. What providers keep to themselves
// was found by comparing such text with bills.
type declarations struct {
	out []byte
}

// schemaDepth is how deep schemas are rendered; what is deeper is any.
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
		return
	}
	d.add(" = (_: {\n")
	d.properties(properties, find(parameters, "required"), 0, 0)
	d.add("\n}) => any;\n\n")
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
		if description := find(schema, "description"); len(description) > 2 && indent < describedDepth {
			d.indent(indent)
			d.add("// ")
			d.text(description)
			d.add("\n")
		}
		key := m.Key()
		d.indent(indent)
		d.out = append(d.out, key...)
		if _, ok := must[string(key)]; !ok {
			d.add("?")
		}
		d.add(": ")
		d.schema(schema, indent, depth+1)
		d.add(",")
	}
}

func (d *declarations) indent(n int) {
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
		d.add("any")
		return
	}
	if any := find(raw, "anyOf"); jsonscan.KindAt(any, 0) == jsonscan.Array {
		d.union(any, func(e []byte) { d.schema(e, indent, depth+1) })
		return
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
		properties := find(raw, "properties")
		d.add("{\n")
		if isFilled(properties) {
			d.properties(properties, find(raw, "required"), indent+2, depth)
		}
		d.add("\n")
		d.add("}")
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
		d.add("any")
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
