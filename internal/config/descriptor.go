package config

import (
	"fmt"
	"regexp"
	"slices"
)

// Descriptor maps descriptors of Envoy's rate limit service to limits.
type Descriptor struct {
	Domain string
	Match  map[string]string // entry → its value, or "*"
	Limits []string          // as X-LLMGW-Limited-By, with {entry} for an entry's value
	Charge DescriptorCharge
}

// DescriptorCharge says whether an amount may be refused.
type DescriptorCharge string

// The charges: before a call, all or nothing; and after it, in full.
const (
	ChargeBefore DescriptorCharge = "before"
	ChargeAfter  DescriptorCharge = "after"
)

// placeholder is {entry} in the name of a limit.
var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

// descriptor reads one rule.
func (d *decoder) descriptor(r *Descriptor) func(*node) {
	return func(n *node) {
		*r = Descriptor{Charge: ChargeBefore}
		before := len(d.problems)
		d.object(n, fields{
			"domain": set(d, &r.Domain, word),
			"match":  d.entries(&r.Match),
			"limits": setList(d, &r.Limits, func(s *string) func(*node) { return set(d, s, word) }),
			"charge": set(d, &r.Charge, oneOf(ChargeBefore, ChargeAfter)),
		})
		d.need(n, "a descriptor", "domain", "match", "limits")
		if len(d.problems) > before {
			return
		}
		for i, name := range r.Limits {
			for _, m := range placeholder.FindAllStringSubmatch(name, -1) {
				if _, ok := r.Match[m[1]]; !ok {
					d.fail(n.value("limits").items[i], "names the entry %q, which match does not have", m[1])
				}
			}
		}
	}
}

// entries reads the values that entries of a descriptor must have.
func (d *decoder) entries(dst *map[string]string) func(*node) {
	return func(n *node) {
		all := fields{}
		values := map[string]*string{}
		if n.kind == object {
			for _, e := range n.entries {
				v := new(string)
				values[e.key.text], all[e.key.text] = v, set(d, v, word)
			}
		}
		d.object(n, all)
		*dst = map[string]string{}
		for name, v := range values {
			(*dst)[name] = *v
		}
	}
}

// Matches returns the limits that a descriptor with these entries counts in, or
// false if the rule is not its.
func (r *Descriptor) Matches(domain string, entries map[string]string) ([]string, bool) {
	if domain != r.Domain {
		return nil, false
	}
	for name, want := range r.Match {
		if got, ok := entries[name]; !ok || want != "*" && want != got {
			return nil, false
		}
	}
	limits := slices.Clone(r.Limits)
	for i := range limits {
		limits[i] = placeholder.ReplaceAllStringFunc(limits[i], func(s string) string { return entries[s[1:len(s)-1]] })
	}
	return limits, true
}

// String writes a rule as it is named in a log.
func (r *Descriptor) String() string { return fmt.Sprintf("%s %v", r.Domain, r.Match) }
