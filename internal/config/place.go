package config

import (
	"slices"

	"llmgw/internal/budget"
)

// place is what a limit is written under.
type place struct {
	scope budget.Scope
	owner string
	tag   string // empty: the place's own name
	// meets tells whether a request for m can meet the limit.
	meets func(m *Model) bool
}

// String is the place's name, as budget.Limit has it.
func (p place) String() string {
	if p.owner == "" {
		return string(p.scope)
	}
	return string(p.scope) + "/" + p.owner
}

func gatewayPlace() place {
	return place{scope: budget.Gateway, meets: func(*Model) bool { return true }}
}

func modelPlace(model *Model) place {
	return place{scope: budget.Model, owner: model.Name, meets: func(m *Model) bool { return m == model }}
}

func (d *decoder) teamPlace(t *Team) place {
	return place{scope: budget.Team, owner: t.Name, tag: t.Name, meets: d.users(t, nil)}
}

func (d *decoder) keyPlace(t *Team, k *Key) place {
	return place{scope: budget.Key, owner: k.ID, tag: t.Name, meets: d.users(t, k)}
}

// users reports of a model whether the team, or its key k if there is one, can
// meet it. It must be asked when the whole file was read.
func (d *decoder) users(t *Team, k *Key) func(*Model) bool {
	return func(m *Model) bool {
		return mayUse(t.Models, m, d.configured) && (k == nil || mayUse(k.Models, m, d.configured))
	}
}

// configured reports whether the file has a model of this name.
func (d *decoder) configured(name string) bool { return d.modelNames[name] != nil }

// mayUse reports whether a team or a key that may use these models can meet m: by
// its name, or by one that only "*" serves because it is not configured.
func mayUse(models []string, m *Model, configured func(name string) bool) bool {
	if models == nil || slices.Contains(models, anyModel) || slices.Contains(models, m.Name) {
		return true
	}
	return m.Name == anyModel && slices.ContainsFunc(models, func(name string) bool { return !configured(name) })
}

// scopes are what a limit written here can count over, the default first.
func (p place) scopes() []budget.Scope {
	scopes := []budget.Scope{p.scope, budget.User, budget.IP}
	if p.scope != budget.Model {
		scopes = append(scopes, budget.Model)
	}
	return scopes
}

// placedLimit is a limit, where it stands, and who meets it.
type placedLimit struct {
	*budget.Limit
	node  *node
	meets func(*Model) bool
}

// limitList reads the limits written under p, if any are.
func (d *decoder) limitList(n *node, dst *[]*budget.Limit, p place) {
	if n == nil {
		return
	}
	seen := map[string]*node{}
	setList(d, dst, func(l **budget.Limit) func(*node) {
		return func(n *node) {
			*l = d.limit(n, p)
			if (*l).Name != "" {
				d.unique(seen, (*l).Name, n.at("name"), "a limit here")
			}
		}
	})(n)
}
