package config

import "slices"

// plan reads a plan, which is what several teams or keys share. Its limits are
// read as a team's are, and thrown away: whoever takes the plan has its own.
func (d *decoder) plan(plan *string) func(*node) {
	return func(n *node) {
		var limits *node
		t := Team{Name: "plan"}
		before := len(d.limits)
		d.object(n, fields{"name": set(d, plan, name), "models": d.modelNamesOf(&t.Models), "limits": keep(&limits)})
		d.need(n, "a plan", "name")
		d.limitList(limits, &t.Limits, d.teamPlace(&t))
		d.limits = d.limits[:before]
		if *plan != "" {
			d.unique(d.planNames, *plan, n.at("name"), "a plan")
			d.plans[*plan] = n
		}
	}
}

// planned is n, a team or a key, with what it takes from the plan that it names:
// what n says itself counts, and the plan's limits are put behind its own. A limit
// of a name that the plan has changes the members that it gives.
func (d *decoder) planned(n *node) *node {
	if n.kind != object {
		return n
	}
	named := n.value("plan")
	if named == nil || named.kind != scalar || named.undefined {
		return n
	}
	plan := d.plans[named.text]
	if plan == nil {
		d.fail(named, "there is no plan %s%s", show(named), didYouMean(named.raw, asWritten(d.planNames)))
		return n
	}
	whole := *n
	whole.entries = slices.Clone(n.entries)
	for _, e := range plan.entries {
		switch mine := n.value(e.key.text); {
		case e.key.text == "name":
		case mine == nil:
			whole.entries = append(whole.entries, e)
		case e.key.text == "limits" && mine.kind == list && e.value.kind == list:
			i := slices.IndexFunc(n.entries, func(e entry) bool { return e.value == mine })
			whole.entries[i].value = overlay(mine, e.value)
		}
	}
	return &whole
}

// overlay is the limits of mine, each over the plan's of its name, and then the
// others of the plan.
func overlay(mine, plan *node) *node {
	all := *mine
	all.items = nil
	rest := slices.Clone(plan.items)
	for _, item := range mine.items {
		i := slices.IndexFunc(rest, func(p *node) bool { return sameName(p, item) })
		if i < 0 {
			all.items = append(all.items, item)
			continue
		}
		changed := *item
		changed.entries = slices.Clone(item.entries)
		for _, e := range rest[i].entries {
			if item.value(e.key.text) == nil {
				changed.entries = append(changed.entries, e)
			}
		}
		all.items = append(all.items, &changed)
		rest = slices.Delete(rest, i, i+1)
	}
	all.items = append(all.items, rest...)
	return &all
}

// sameName reports whether two limits have the same name.
func sameName(a, b *node) bool {
	if a.kind != object || b.kind != object {
		return false
	}
	x, y := a.value("name"), b.value("name")
	return x != nil && y != nil && x.kind == scalar && y.kind == scalar && x.text == y.text
}
