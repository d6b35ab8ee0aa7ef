package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"llmgw/configs"
)

// Schema is a JSON Schema (2020-12) of the configuration file, made of the example,
// which has every key: what is an object, a list or a value, and its comment as the
// description. A value may be a ${NAME} anywhere, so it is of no type of its own.
func Schema() (map[string]any, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(configs.Example()), &doc); err != nil {
		return nil, fmt.Errorf("read the example: %w", err)
	}
	if len(doc.Content) != 1 {
		return nil, fmt.Errorf("read the example: it has %d documents", len(doc.Content))
	}
	s := shapes{lists: map[string]*shape{}}
	root := s.of("", doc.Content[0])
	json := root.json()
	json["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	json["title"] = "llmgw"
	definitions := map[string]any{}
	for name, items := range s.lists {
		definitions[name] = items.json()
	}
	json["$defs"] = definitions
	return json, nil
}

// shapes are the shapes of the example. The items of lists of one name have one
// shape wherever they stand, such as limits.
type shapes struct{ lists map[string]*shape }

// shape is what stands at one place.
type shape struct {
	fields map[string]*shape // of an object
	items  string            // of a list of objects: the name of their shape
	list   bool              // of values
	about  string
}

func (s *shapes) of(name string, n *yaml.Node) *shape {
	of := &shape{}
	switch n.Kind {
	case yaml.MappingNode:
		of.fields = map[string]*shape{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			field := s.of(key.Value, value)
			field.about = comment(key.HeadComment, key.LineComment, value.LineComment)
			of.fields[key.Value] = field
		}
	case yaml.SequenceNode:
		of.list = true
		for _, item := range n.Content {
			if item.Kind != yaml.MappingNode {
				continue
			}
			of.list, of.items = false, name
			if s.lists[name] == nil {
				s.lists[name] = &shape{fields: map[string]*shape{}}
			}
			s.lists[name].merge(s.of(name, item))
		}
	}
	return of
}

// merge adds what o has.
func (s *shape) merge(o *shape) {
	s.about = cmp.Or(s.about, o.about)
	s.items, s.list = cmp.Or(s.items, o.items), s.list || o.list
	for name, field := range o.fields {
		if s.fields == nil {
			s.fields = map[string]*shape{}
		}
		if s.fields[name] == nil {
			s.fields[name] = field
			continue
		}
		s.fields[name].merge(field)
	}
}

// comment is a comment as text.
func comment(parts ...string) string {
	var words []string
	for _, p := range parts {
		for line := range strings.Lines(p) {
			words = append(words, strings.Fields(strings.TrimLeft(strings.TrimSpace(line), "#"))...)
		}
	}
	return strings.Join(words, " ")
}

// open are objects whose names are people's own.
var open = []string{"above", "tiers", "match"}

func (s *shape) json() map[string]any {
	json := map[string]any{}
	if s.about != "" {
		json["description"] = s.about
	}
	switch {
	case s.fields != nil:
		properties := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.fields)) {
			field := s.fields[name].json()
			if slices.Contains(open, name) {
				delete(field, "properties")
				delete(field, "additionalProperties")
			}
			properties[name] = field
		}
		json["type"], json["properties"], json["additionalProperties"] = "object", properties, false
	case s.items != "":
		json["type"], json["items"] = "array", map[string]any{"$ref": "#/$defs/" + s.items}
	case s.list:
		json["type"], json["items"] = "array", map[string]any{"type": []string{"string", "number", "boolean"}}
	default:
		json["type"] = []string{"string", "number", "boolean", "null"}
	}
	return json
}
