// Package admin is the operators' side of the gateway over HTTP: health,
// metrics, limits and usage as JSON, blocks and switches, and the dashboard
// that team leads look at. It decides nothing about requests: it shows what
// others know and passes on what operators want, through what Config names.
//
// admin.go is the handler and its routes with the role that each needs,
// account.go who may do what, guard.go checks tokens and slow.go slows wrong ones, reply.go writes answers and errors.
// teams.go, usage.go, blocks.go, control.go (enforcement, reload, explain) and
// health.go are the routes, and keys.go, amounts.go and audit.go those of what
// operators change at run time; dashboard.go is the page, live.go its figures.
package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"llmgw/internal/books"
	"llmgw/internal/budget"
	"llmgw/internal/changes"
	"llmgw/internal/tenant"
)

// Config is what the admin plane shows and changes. All functions must be safe
// for concurrent use. Those that are nil have their routes answer 501.
type Config struct {
	// Accounts are who may come in, each with a Bearer token of its own. If there are
	// none, everybody may do everything.
	Accounts []Account
	// Forbidden is called for each request that the role or the teams of account do
	// not allow. nil: nobody listens.
	Forbidden func(account Account, r *http.Request)
	// PassKey signs the dashboard's cookies. It must not be known to anybody.
	PassKey []byte
	// Hosts are the names by which the admin plane may be called while there are no
	// Accounts, beside addresses and names without a dot.
	Hosts []string
	// Client returns what address r comes from, as wrong tokens are counted. nil:
	// the peer's, or its network of IPv6.
	Client func(r *http.Request) string
	// WrongToken is called for each wrong token, with its Client. nil: nobody listens.
	WrongToken func(client string)
	// Now tells the time. nil: time.Now.
	Now func() time.Time

	// Teams lists the teams of the configuration in force.
	Teams func() []tenant.Team
	// Common lists the limits that teams share: of the gateway and of models.
	Common func() []*budget.Limit
	// Read reads counters from the store, as budget.Store's Read.
	Read func(ctx context.Context, lines []budget.Line) ([]budget.LineState, time.Time, error)

	// Books are what was spent.
	Books Books
	// Partial reports whether other gateways keep books of the same limits. nil: none do.
	Partial func() bool

	Blocks      blocks
	Enforcement enforcement
	// Reload loads the configuration again; its errors, one or many joined, are
	// what is wrong with it.
	Reload func(ctx context.Context) error
	// Explain judges a request without charging it. Its value becomes JSON. Its
	// errors may be faults; ErrNotFound says that there is no such key.
	Explain func(ctx context.Context, q Question) (any, error)

	// Changes are what operators change at run time. nil: nothing can be changed. The
	// functions behind it belong to it.
	Changes *changes.Changes
	// CheckKey returns a fault if there cannot be such a key.
	CheckKey func(k changes.Key) error
	// Amount reads an amount as the configuration has it, in budget units. Its error
	// completes a sentence that begins with the amount.
	Amount func(unit budget.Unit, text string) (int64, error)
	// Reset begins a counter anew.
	Reset func(ctx context.Context, line budget.Line) error
	// LastUsed is when each key was last used, by its id.
	LastUsed func(ctx context.Context) (map[string]time.Time, error)

	// Ready tells whether the gateway takes requests, and in what state: ok,
	// degraded, starting, draining.
	Ready   func() (status string, ready bool)
	Metrics http.Handler
	// Live tells what this instance is at.
	Live func() Live
	// Notices are what everybody who looks at the dashboard should know, in
	// sentences. nil: none.
	Notices func() []string
}

// Books are what was spent; books.Books are such.
type Books interface {
	Usage(ctx context.Context, q books.Query) ([]books.Row, error)
	Requests(ctx context.Context, f books.Find) (found []books.Record, next string, err error)
	Request(ctx context.Context, id string, teams []string) (books.Record, error)
	Series(ctx context.Context) (books.Series, error)
	Events(ctx context.Context, f books.FindEvents) (found []books.Event, next string, err error)
}

// blocks are who may not come in; tenant.Blocks are such.
type blocks interface {
	List() []tenant.Block
	Add(ctx context.Context, b tenant.Block) (tenant.Block, error)
	Delete(ctx context.Context, id string) (known bool, err error)
}

// enforcement is the main switch: enforce, shadow or off.
type enforcement interface {
	Mode(ctx context.Context) (string, error)
	SetMode(ctx context.Context, mode string) error
}

// ErrNotFound says that a key that an operator named does not exist.
var ErrNotFound = errors.New("admin: not found")

type handler struct {
	config    Config
	live      liveCache
	page      page
	strangers strangers
}

// New returns the handler of the admin plane.
func New(c Config) http.Handler {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Client == nil {
		c.Client = peer
	}
	if c.Forbidden == nil {
		c.Forbidden = func(Account, *http.Request) {}
	}
	if c.WrongToken == nil {
		c.WrongToken = func(string) {}
	}
	h := &handler{config: c, page: newPage()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", h.healthz)
	mux.HandleFunc("GET /readyz", h.readyz)
	mux.HandleFunc("POST /dashboard/login", h.login)
	for _, route := range h.routes() {
		mux.HandleFunc(route.pattern, h.allow(route))
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/dashboard", http.StatusSeeOther)
	})
	return http.NewCrossOriginProtection().Handler(h.guard(plainErrors(mux)))
}

// route is what one endpoint needs of who calls it.
type route struct {
	pattern string
	role    Role // the least that is enough
	reach   reach
	serve   func(w http.ResponseWriter, r *http.Request, who Account)
}

// reach says what an endpoint shows or changes.
type reach int

const (
	// byTeam is what belongs to teams: the endpoint keeps to those of the account.
	byTeam reach = iota
	// everything has no teams: an account that is bound to teams may not have it.
	everything
)

func (h *handler) routes() []route {
	routes := []route{
		{"GET /metrics", Viewer, everything, h.metrics},
		{"GET /dashboard", Viewer, byTeam, h.dashboard},
		{"GET /dashboard/teams/{team}", Viewer, byTeam, h.dashboard},
		{"POST /dashboard/explain", Viewer, byTeam, h.explain},
		{"GET /dashboard/live", Viewer, byTeam, h.liveJSON},
		{"GET /admin/v1/teams", Viewer, byTeam, h.teams},
		{"GET /admin/v1/teams/{team}", Viewer, byTeam, h.team},
		{"POST /admin/v1/explain", Viewer, byTeam, h.explain},
		{"GET /admin/v1/usage", Viewer, byTeam, h.usage},
		{"GET /admin/v1/requests", Viewer, byTeam, h.requests},
		{"GET /admin/v1/events", Viewer, byTeam, h.events},
		{"GET /admin/v1/requests/{id}", Viewer, byTeam, h.request},
		{"GET /admin/v1/blocks", Viewer, byTeam, h.listBlocks},
		{"POST /admin/v1/blocks", Operator, byTeam, h.addBlock},
		{"DELETE /admin/v1/blocks/{id}", Operator, byTeam, h.removeBlock},
		{"GET /admin/v1/enforcement", Viewer, byTeam, h.enforcement},
		{"PUT /admin/v1/enforcement", Admin, everything, h.setEnforcement},
		{"POST /admin/v1/reload", Admin, everything, h.reload},
	}
	changing := []route{
		{"GET /admin/v1/keys", Viewer, byTeam, h.listKeys},
		{"POST /admin/v1/keys", Admin, byTeam, h.createKey},
		{"GET /admin/v1/keys/{id}", Viewer, byTeam, h.getKey},
		{"PATCH /admin/v1/keys/{id}", Admin, byTeam, h.patchKey},
		{"DELETE /admin/v1/keys/{id}", Admin, byTeam, h.deleteKey},
		{"POST /admin/v1/keys/{id}/rotate", Admin, byTeam, h.rotateKey},
		{"GET /admin/v1/overrides", Viewer, byTeam, h.listOverrides},
		{"GET /admin/v1/credits", Viewer, byTeam, h.listCredits},
		{"PUT /admin/v1/overrides/{limit...}", Operator, byTeam, h.setOverride},
		{"DELETE /admin/v1/overrides/{limit...}", Operator, byTeam, h.removeOverride},
		{"POST /admin/v1/credits", Operator, byTeam, h.giveCredit},
		{"POST /admin/v1/limits/{limit...}", Operator, byTeam, h.limitAction},
		{"GET /admin/v1/audit", Viewer, byTeam, h.audit},
	}
	for _, r := range changing {
		if h.config.Changes == nil {
			r.serve = func(w http.ResponseWriter, _ *http.Request, _ Account) { notServed(w) }
		}
		routes = append(routes, r)
	}
	return routes
}
