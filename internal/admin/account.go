package admin

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"

	"llmgw/internal/tenant"
)

// Role is what an account may do. Each role may do what those before it may.
type Role string

// The roles. A viewer reads, an operator also blocks, credits and overrides, an
// admin also makes keys, reloads and turns the main switch.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Admin    Role = "admin"
)

var roles = []Role{Viewer, Operator, Admin}

func (r Role) covers(least Role) bool { return slices.Index(roles, r) >= slices.Index(roles, least) }

// Account is somebody who may use the admin plane.
type Account struct {
	Name string // stands in the log and the audit
	// SHA256 is the hash of the account's token.
	SHA256 [sha256.Size]byte
	Role   Role
	// Teams are the only ones that the account sees and changes. nil: all.
	Teams []string
}

// anybody is who comes in where there are no accounts.
var anybody = Account{Name: "anybody", Role: Admin}

// bound reports whether the account is bound to some teams.
func (a Account) bound() bool { return a.Teams != nil }

// has reports whether the account may see and, by its role, change team.
func (a Account) has(team string) bool { return !a.bound() || slices.Contains(a.Teams, team) }

// allow serves a route to the accounts that it is for.
func (h *handler) allow(route route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, _ := h.account(r) // the guard let it in
		switch {
		case !who.Role.covers(route.role):
			h.forbid(w, r, who, fmt.Sprintf("This needs the role %s; %s has the role %s.", route.role, who.Name, who.Role))
		case who.bound() && route.reach == everything:
			h.forbid(w, r, who, fmt.Sprintf("This concerns all teams; %s is bound to some.", who.Name))
		default:
			route.serve(w, r, who)
		}
	}
}

// forbid answers what the role or the teams of who do not allow.
func (h *handler) forbid(w http.ResponseWriter, r *http.Request, who Account, why string) {
	h.config.Forbidden(who, r)
	replyError(w, http.StatusForbidden, "forbidden", why)
}

// forbidTeam answers a request for what belongs to another team than who's, or to
// none: it is the same whether there is such a thing.
func (h *handler) forbidTeam(w http.ResponseWriter, r *http.Request, who Account) {
	h.forbid(w, r, who, fmt.Sprintf("%s is bound to other teams.", who.Name))
}

// teamsOf lists the teams that who may see.
func (h *handler) teamsOf(who Account) []tenant.Team {
	all := h.config.Teams()
	if !who.bound() {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(t tenant.Team) bool { return !who.has(t.Name) })
}

// hasKey reports whether the key belongs to a team that who may see.
func (h *handler) hasKey(who Account, id string) bool {
	if !who.bound() {
		return true
	}
	return h.config.Teams != nil && slices.ContainsFunc(h.teamsOf(who), func(t tenant.Team) bool {
		return slices.ContainsFunc(t.Keys, func(k tenant.Key) bool { return k.ID == id })
	})
}

// hasBlock reports whether b keeps out a team or a key of who alone. Users and
// addresses are of no team.
func (h *handler) hasBlock(who Account, b tenant.Block) bool {
	switch b.Scope {
	case tenant.BlockTeam:
		return who.has(b.Value)
	case tenant.BlockKey:
		return h.hasKey(who, b.Value)
	default:
		return !who.bound()
	}
}
