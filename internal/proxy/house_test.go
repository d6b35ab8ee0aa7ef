package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/admission"
	"llmgw/internal/budget"
	"llmgw/internal/budget/memstore"
	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/anthropic"
	"llmgw/internal/dialect/azure"
	"llmgw/internal/dialect/bedrock"
	"llmgw/internal/dialect/cohere"
	"llmgw/internal/dialect/gemini"
	"llmgw/internal/dialect/ollama"
	"llmgw/internal/dialect/openai"
	"llmgw/internal/estimate"
	"llmgw/internal/ledger"
	"llmgw/internal/shared"
	"llmgw/internal/telemetry"
	"llmgw/internal/tenant"
	"llmgw/internal/tokens"
	"llmgw/internal/upstream"
)

// A house is a whole gateway in this process: a client, the gateway, a scripted
// provider and the memory store, joined by real HTTP over pipes, on virtual
// time. A test starts one, sends requests, and sees what the client got and what
// was charged:
//
//	inHouse(t, setting{dialect: "openai"}, provider, func(h *house) {
//		got := h.ask("/v1/chat/completions", body)        // the whole answer
//		a := h.open("/v1/chat/completions", body)         // an answer as it comes
//		a.until("stop").leave()                           // the client leaves
//		e := h.entry()                                    // the usage log's line of it
//		h.limiter.used(e.RequestID) // what each limit was charged: tokens, requests
//	})
//
// The provider is a handler; it knows the providers of a setting apart by r.Host,
// which is the provider's name. time.Sleep in a handler or a story costs nothing.

const (
	houseKey = "sk-house"
	chatPath = "/v1/chat/completions"
)

// setting is what a house is made of. The zero setting has the model "m" at one
// provider of the openai dialect, "p", and a team with limits of tokens and
// requests that are never in the way.
type setting struct {
	dialect, flavor string
	providers       []string // names of targets; empty: "p"
	provider        func(*upstream.Provider)
	model           func(*charge.Model)
	rules           func(*Rules)
	openai          dialect.Dialect // in place of the real one; nil: that
	parts           func(*Parts)
}

// house is a gateway that runs within a test.
type house struct {
	*Gateway
	t       *testing.T
	limiter *accounts
	entries *entries
	client  *http.Client
	cut     context.CancelCauseFunc // ends all requests for a cause
	log     *lockedBuffer
}

// inHouse runs story in a house, and ends it.
func inHouse(t *testing.T, s setting, provider http.HandlerFunc, story func(h *house)) {
	t.Helper()
	if err := estimate.New(estimate.Config{}).Warm("o200k_base", "cl100k_base"); err != nil { // no house may own what they share
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		h, end := s.house(t, newAccounts(), provider)
		defer end()
		story(h)
	})
}

// house starts a house over a store that it may share with others. end ends it.
func (s setting) house(t *testing.T, limiter *accounts, provider http.HandlerFunc) (h *house, end func()) {
	t.Helper()
	h = &house{t: t, limiter: limiter, entries: &entries{}, log: &lockedBuffer{}}
	there := serveOver(context.Background(), provider)
	logger := slog.New(slog.NewJSONHandler(h.log, nil))
	rules, providers := s.build(t)
	room := admission.New()
	client := upstream.New(upstream.Config{
		Providers: providers, Limiter: h.limiter, Room: room, Logger: logger,
		Transport: func(*upstream.Provider) http.RoundTripper { return there.transport() },
	})
	tracing, err := telemetry.NewTracing(t.Context(), telemetry.TracingConfig{Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	if s.openai == nil {
		s.openai = openai.New()
	}
	parts := Parts{
		Dialects: []dialect.Dialect{s.openai, azure.New(), anthropic.New(), gemini.New(), bedrock.New(), cohere.New(), ollama.New()},
		Limiter:  h.limiter, Upstream: client, Estimator: estimate.New(estimate.Config{}), Blocks: tenant.NewBlocks(nil, time.Now),
		Ledger: h.entries, Shared: &shared.Memory{}, Metrics: telemetry.NewMetrics(telemetry.Build{}, 100), Tracing: tracing, Logger: logger,
		Room: room, StoreUp: func() bool { return true },
	}
	if s.parts != nil {
		s.parts(&parts)
	}
	h.Gateway = New(parts, rules, Enforce)
	base, cut := context.WithCancelCause(context.Background())
	h.cut = cut
	here := serveOver(base, h.Handler())
	transport := here.transport()
	h.client = &http.Client{Transport: transport}
	return h, func() {
		defer cut(nil)
		transport.CloseIdleConnections()
		h.idle()
		h.Close()
		here.close()
		client.Close()
		there.close()
	}
}

// build makes the rules and providers of a setting.
func (s setting) build(t *testing.T) (*Rules, []*upstream.Provider) {
	names := s.providers
	if len(names) == 0 {
		names = []string{"p"}
	}
	name := s.dialect
	if name == "" {
		name = openai.Name
	}
	m := &charge.Model{Name: "m", Weights: tokens.Even, Rules: estimate.Rules{DefaultMaxOutput: 4096}}
	var providers []*upstream.Provider
	for _, n := range names {
		p := &upstream.Provider{Name: n, Dialect: name, Flavor: s.flavor, BaseURL: "http://" + n, APIKeys: []string{"sk-provider"}, Region: "us-east-1"}
		if s.provider != nil {
			s.provider(p)
		}
		providers = append(providers, p)
		m.Targets = append(m.Targets, upstream.Target{Provider: p, Model: "m", Weight: 1})
	}
	if s.model != nil {
		s.model(m)
	}
	directory, err := tenant.NewDirectory([]tenant.Team{{
		Name: "t", Weight: 1, Keys: []tenant.Key{{ID: "k", SHA256: sha256.Sum256([]byte(houseKey))}},
		Limits: []*budget.Limit{houseLimit(budget.Tokens), houseLimit(budget.Requests)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	rules := &Rules{Directory: directory, Models: map[string]*charge.Model{"m": m}, MaxBodyBytes: 1 << 20, MaxBodiesBytes: 16 << 20, MaxWaiting: 100, OnClientGone: Cancel}
	if s.rules != nil {
		s.rules(rules)
	}
	return rules, providers
}

// houseLimit is a team's limit that refuses nothing.
func houseLimit(u budget.Unit) *budget.Limit {
	return &budget.Limit{
		Place: "team/t", Scope: budget.Team, Owner: "t", Name: string(u), Unit: u, Amount: 1_000_000_000, Period: budget.Minute,
		Burst: 1_000_000_000, Algorithm: budget.TokenBucket, UnboundedDebt: true, Mode: budget.Enforce,
	}
}

// another runs story at a second gateway of the same store.
func (h *house) another(story func(h *house)) {
	other := *h
	other.Gateway = New(h.Parts, h.Rules(), Enforce)
	here := serveOver(context.Background(), other.Handler())
	defer here.close()
	transport := here.transport()
	other.client = &http.Client{Transport: transport}
	story(&other)
	transport.CloseIdleConnections()
	other.idle()
	other.Close()
}

// answer is a whole answer as the client got it.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // the answer broke
}

// ask posts a request and reads all of the answer. header is names and values
// in turn; a path may have a method and a blank before it.
func (h *house) ask(path, body string, header ...string) answer {
	h.t.Helper()
	return h.open(path, body, header...).rest()
}

// open posts a request and returns its answer as it comes.
func (h *house) open(path, body string, header ...string) *coming {
	h.t.Helper()
	method := http.MethodPost
	if m, p, ok := strings.Cut(path, " "); ok {
		method, path = m, p
	}
	ctx, leave := context.WithCancel(h.t.Context())
	r, err := http.NewRequestWithContext(ctx, method, "http://gateway"+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+houseKey)
	r.Header.Set("Content-Type", "application/json")
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	c := &coming{house: h, leave: leave, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.resp, c.err = h.client.Do(r)
	}()
	return c
}

// coming is an answer on its way. Its header may not have come yet.
type coming struct {
	house *house
	leave context.CancelFunc // the client leaves
	done  chan struct{}
	resp  *http.Response
	err   error
	seen  []byte
}

// until reads until text has come.
func (c *coming) until(text string) *coming {
	c.house.t.Helper()
	<-c.done
	if c.err != nil {
		c.house.t.Fatalf("no answer: %v", c.err)
	}
	piece := make([]byte, 512)
	for !bytes.Contains(c.seen, []byte(text)) {
		n, err := c.resp.Body.Read(piece)
		c.seen = append(c.seen, piece[:n]...)
		if err != nil && !bytes.Contains(c.seen, []byte(text)) {
			c.house.t.Fatalf("the answer ended before %q: %v after %s", text, err, c.seen)
		}
	}
	return c
}

// rest reads the answer to its end.
func (c *coming) rest() answer {
	<-c.done
	defer c.leave()
	if c.err != nil {
		return answer{err: c.err}
	}
	rest, err := io.ReadAll(c.resp.Body)
	_ = c.resp.Body.Close() // it was read to its end
	return answer{status: c.resp.StatusCode, header: c.resp.Header, body: string(append(c.seen, rest...)), err: err}
}

// idle waits until no call is being served.
func (h *house) idle() {
	h.t.Helper()
	for waited := 0; h.Inflight() > 0; waited++ {
		if waited > 3600 {
			h.t.Fatal("a call is still served after an hour")
		}
		time.Sleep(time.Second)
	}
	synctest.Wait()
}

// entry waits until no call is being served, and returns the last line of the
// usage log.
func (h *house) entry() ledger.Entry {
	h.t.Helper()
	h.idle()
	h.entries.mu.Lock()
	defer h.entries.mu.Unlock()
	if len(h.entries.all) == 0 {
		h.t.Fatal("nothing was recorded")
	}
	return h.entries.all[len(h.entries.all)-1]
}

// entries is a ledger that keeps all entries.
type entries struct {
	mu  sync.Mutex
	all []ledger.Entry
}

func (l *entries) Record(e ledger.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

// accounts is a Limiter over the memory store that remembers what it was told.
// It settles at once.
type accounts struct {
	*memstore.Store
	mu      sync.Mutex
	lines   map[string][]budget.Line // by reservation
	settled map[string][]int64
	told    map[string][]int64 // what is charged if the gateway dies
}

func newAccounts() *accounts {
	return &accounts{Store: memstore.New(time.Now), lines: map[string][]budget.Line{}, settled: map[string][]int64{}, told: map[string][]int64{}}
}

const houseEpoch = "house"

func (a *accounts) Reserve(ctx context.Context, r budget.Request) (*budget.Reservation, budget.Verdict) {
	if r.Epoch == "" {
		r.Epoch = houseEpoch
	}
	v, err := a.Store.Reserve(ctx, r)
	if err != nil {
		return nil, budget.Verdict{Outcome: budget.Unavailable}
	}
	if v.Outcome != budget.Granted {
		return nil, v
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines[plainID(r.ID)] = r.Lines
	held := new(budget.Reservation)
	held.Open(a, account{a, r}, r)
	return held, v
}

func (a *accounts) Adopt(r budget.Request, more ...budget.Request) *budget.Reservation {
	held := new(budget.Reservation)
	held.Open(a, account{a, r}, r)
	for _, part := range more {
		held.Join(a.Adopt(part))
	}
	return held
}

func (a *accounts) Progress(ctx context.Context, p []budget.Progress) error {
	return a.Store.Report(ctx, p)
}

// account is the budget.Holder of one reservation.
type account struct {
	*accounts
	r budget.Request
}

func (a account) Settle(used []int64) {
	a.mu.Lock()
	a.settled[plainID(a.r.ID)] = slices.Clone(used)
	a.mu.Unlock()
	_, err := a.Store.Settle(context.Background(), []budget.Settlement{{ID: a.r.ID, Epoch: houseEpoch, Lines: a.r.Lines, Used: used}})
	if err != nil {
		panic(err)
	}
}

func (a account) Sent(used []int64) { a.Report(used) }

func (a account) Report(used []int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told[plainID(a.r.ID)] = slices.Clone(used)
}

func (a *accounts) Correct(c budget.Correction) {
	if err := a.Store.Correct(context.Background(), []budget.Correction{c}); err != nil {
		panic(err)
	}
}

// plainID is a reservation's id without its tag.
func plainID(id string) string {
	id, _, _ = strings.Cut(id, "|")
	return id
}

// total is what all reservations were charged of a unit.
func (a *accounts) total(u budget.Unit) (sum int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, used := range a.settled {
		for i, n := range used {
			if a.lines[id][i].Limit.Unit == u {
				sum += n
			}
		}
	}
	return sum
}

// used is what the reservation id was charged, line by line; nil: it is open.
func (a *accounts) used(id string) []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settled[id]
}

// open is how many reservations are not settled.
func (a *accounts) open() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.lines) - len(a.settled)
}

// piped is a server that is reached over pipes.
type piped struct {
	server  *http.Server
	conns   chan net.Conn
	closed  chan struct{}
	clients []*http.Transport
	serving sync.WaitGroup // handlers
}

// serveOver serves a handler until it is closed, in contexts of base.
func serveOver(base context.Context, handler http.Handler) *piped {
	p := &piped{conns: make(chan net.Conn), closed: make(chan struct{})}
	p.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.serving.Add(1)
		defer p.serving.Done()
		handler.ServeHTTP(w, r)
	}), BaseContext: func(net.Listener) context.Context { return base }}
	go func() { _ = p.server.Serve(p) }() // it is closed
	return p
}

// transport returns connections to the server, whatever address is asked for.
func (p *piped) transport() *http.Transport {
	t := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case p.conns <- there:
			return here, nil
		case <-p.closed:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	p.clients = append(p.clients, t)
	return t
}

func (p *piped) close() {
	for _, t := range p.clients {
		t.CloseIdleConnections()
	}
	_ = p.server.Close() // nothing of it matters any more
	p.serving.Wait()
	time.Sleep(time.Second) // a connection whose request was not read to its end lingers
}

// Accept, Close and Addr implement net.Listener.
func (p *piped) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *piped) Close() error {
	close(p.closed)
	return nil
}

func (p *piped) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}
