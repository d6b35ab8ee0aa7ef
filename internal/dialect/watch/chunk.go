package watch

import (
	"slices"

	"llmgw/internal/jsonscan"
)

// usageOf finds the members of a chunk that report usage, each with one comma.
// drop says that the chunk has nothing else to tell: it reports usage and has
// no choices.
func usageOf(data []byte) (drop bool, members []jsonscan.Span) {
	at := jsonscan.Start(data)
	reports, choices, failed := false, false, false
	cut := cutter{}
	m := jsonscan.MembersAt(data, at)
	for m.Next() {
		usage := m.Is("usage")
		cut.member(m.KeySpan(), m.Value(), usage)
		switch {
		case usage:
			reports = reports || m.Kind() != jsonscan.Null
		case m.Is("choices"):
			choices = hasElement(data, m.Value())
		case m.Is("error"):
			failed = m.Kind() != jsonscan.Null
		case m.Is("x_groq") && m.Kind() == jsonscan.Object:
			inner := cutter{}
			x := jsonscan.MembersAt(data, m.Value().Start)
			for x.Next() {
				inner.member(x.KeySpan(), x.Value(), x.Is("usage"))
			}
			members = append(members, inner.end()...)
		}
	}
	if m.Err() != nil {
		return false, nil
	}
	members = append(members, cut.end()...)
	slices.SortFunc(members, func(a, b jsonscan.Span) int { return a.Start - b.Start })
	return reports && !choices && !failed, members
}

func hasElement(data []byte, value jsonscan.Span) bool {
	e := jsonscan.ElementsAt(data, value.Start)
	return e.Next()
}

// cutter finds what must go with the members that are taken out of an object,
// so that the commas stay right.
type cutter struct {
	cuts   []jsonscan.Span
	kept   bool // a member stays before this one
	last   int  // the end of the last value
	leads  int  // where a cut at the head of the object began
	inLead bool
}

func (c *cutter) member(key, value jsonscan.Span, goes bool) {
	if c.inLead && !goes {
		c.cuts = append(c.cuts, jsonscan.Span{Start: c.leads, End: key.Start})
		c.inLead = false
	}
	switch {
	case goes && c.kept:
		c.cuts = append(c.cuts, jsonscan.Span{Start: c.last, End: value.End})
	case goes && !c.inLead:
		c.inLead, c.leads = true, key.Start
	case !goes:
		c.kept = true
	}
	c.last = value.End
}

func (c *cutter) end() []jsonscan.Span {
	if c.inLead {
		c.cuts = append(c.cuts, jsonscan.Span{Start: c.leads, End: c.last})
	}
	return c.cuts
}
