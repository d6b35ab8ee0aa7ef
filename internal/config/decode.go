package config

import (
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// decoder turns nodes into values and remembers everything that is wrong. It
// never stops at a problem; what could not be read keeps its default.
type decoder struct {
	version  int64
	problems []Problem
	warnings []Problem

	// What must be unique in the whole file, with its place.
	providers, modelNames, planNames, teamNames, keyIDs, routes map[string]*node
	plans                                                       map[string]*node // by name; a later one of a name counts
	hashes                                                      map[[32]byte]*node
	// Names of what is defined elsewhere in the file.
	providerRefs, modelRefs, teamRefs []*node

	models []placedModel
	limits []placedLimit
}

func newDecoder(version int64) *decoder {
	return &decoder{
		version:   version,
		providers: map[string]*node{}, modelNames: map[string]*node{}, planNames: map[string]*node{}, teamNames: map[string]*node{},
		keyIDs: map[string]*node{}, routes: map[string]*node{}, hashes: map[[32]byte]*node{}, plans: map[string]*node{},
	}
}

// fields are the keys of one kind of object, each with what reads its value.
type fields map[string]func(*node)

// fail remembers a problem at n.
func (d *decoder) fail(n *node, format string, args ...any) {
	d.problems = append(d.problems, n.problem(format, args...))
}

// warn remembers at n what is allowed and hardly meant.
func (d *decoder) warn(n *node, format string, args ...any) {
	d.warnings = append(d.warnings, n.problem(format, args...))
}

// is tells whether n is of kind k, and fails if not.
func (d *decoder) is(n *node, k kind) bool {
	switch n.kind {
	case k:
		return true
	case null:
		d.fail(n, "%s is missing here: a key without a value is left out", k)
	default:
		d.fail(n, "this is %s where %s belongs", n.kind, k)
	}
	return false
}

// object reads n's keys by f: unknown ones and repetitions are problems.
func (d *decoder) object(n *node, f fields) {
	if !d.is(n, object) {
		return
	}
	seen := make(map[string]*node, len(n.entries))
	for _, e := range n.entries {
		if first, twice := seen[e.key.text]; twice {
			d.fail(e.key, "the key %s is already there, at %s", show(e.key), first.seenFrom(e.key))
			continue
		}
		seen[e.key.text] = e.key
		read, known := f[e.key.text]
		if !known {
			d.fail(e.key, "unknown key %s%s", show(e.key), d.expected(e.key.text, f))
			continue
		}
		read(e.value)
	}
}

// expected is the hint behind an unknown key: the one that was meant, or all.
func (d *decoder) expected(key string, f fields) string {
	known := slices.Sorted(maps.Keys(f))
	if hint := didYouMean(key, known); hint != "" {
		return hint
	}
	return ": here can be " + orList(known)
}

// need fails for each of the keys that the object n does not have.
func (d *decoder) need(n *node, what string, keys ...string) {
	for _, key := range keys {
		if n.kind == object && n.value(key) == nil {
			d.fail(n, "%s needs %q", what, key)
		}
	}
}

// value is the value of the object's key, or nil.
func (n *node) value(key string) *node {
	for _, e := range n.entries {
		if e.key.text == key {
			return e.value
		}
	}
	return nil
}

// at is where the object's key has its value, or the object itself.
func (n *node) at(key string) *node {
	if v := n.value(key); v != nil {
		return v
	}
	return n
}

// unique fails if name was seen before, and remembers where it is.
func (d *decoder) unique(seen map[string]*node, name string, n *node, what string) {
	if first, twice := seen[name]; twice {
		d.fail(n, "%s is already the name of %s, at %s", show(n), what, first.seenFrom(n))
		return
	}
	seen[name] = n
}

// keep puts the node itself into dst, for values that cannot be read before
// another key is known.
func keep(dst **node) func(*node) { return func(n *node) { *dst = n } }

// set reads a single value into dst. The error of parse completes a sentence
// that begins with the value: "is not a duration".
func set[T any](d *decoder, dst *T, parse func(string) (T, error)) func(*node) {
	return func(n *node) {
		if !d.is(n, scalar) || n.undefined {
			return
		}
		v, err := parse(n.text)
		if err != nil {
			d.fail(n, "%s %v", show(n), err)
			return
		}
		*dst = v
	}
}

// setSecret is set for values that no message may show, whoever wrote them.
func setSecret[T any](d *decoder, dst *T, parse func(string) (T, error)) func(*node) {
	return func(n *node) {
		if !d.is(n, scalar) || n.undefined {
			return
		}
		v, err := parse(n.text)
		if err != nil {
			d.fail(n, "this value %v", err)
			return
		}
		*dst = v
	}
}

// setList reads a list into dst, never nil after it, item by item.
func setList[T any](d *decoder, dst *[]T, item func(dst *T) func(*node)) func(*node) {
	return func(n *node) {
		if !d.is(n, list) {
			return
		}
		*dst = make([]T, len(n.items))
		for i, it := range n.items {
			item(&(*dst)[i])(it)
		}
	}
}

// show quotes a value as the file has it, so that what ${…} stands for is
// never shown.
func show(n *node) string {
	const longest = 60
	text := n.raw
	if utf8.RuneCountInString(text) > longest {
		text = string([]rune(text)[:longest]) + "…"
	}
	return strconv.Quote(text)
}
