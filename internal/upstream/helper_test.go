package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/memstore"
	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

// memory is a Limiter over the memory store: one store, any number of gateways.
type memory struct {
	store   *memstore.Store
	latency time.Duration // of a reserve

	mu       sync.Mutex
	open     map[string][]budget.Line
	reserves int
	settled  map[string][]int64
	asked    map[string]bool
	paused   []time.Duration
	atMost   []int64
}

func newMemory() *memory {
	return &memory{store: memstore.New(nil), open: map[string][]budget.Line{}, settled: map[string][]int64{}, asked: map[string]bool{}}
}

func (m *memory) Reserve(ctx context.Context, r budget.Request) (*budget.Reservation, budget.Verdict) {
	r.Epoch = "e1"
	m.mu.Lock()
	if m.asked[r.ID] {
		panic("an id was used twice: " + r.ID) // after a timeout it would be refused for ever
	}
	m.asked[r.ID] = true
	m.mu.Unlock()
	if m.latency > 0 {
		time.Sleep(m.latency)
	}
	v, err := m.store.Reserve(ctx, r)
	if err != nil {
		return nil, budget.Verdict{Outcome: budget.Unavailable, Binding: -1}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserves++
	if v.Outcome != budget.Granted {
		return nil, v
	}
	m.open[r.ID] = r.Lines
	held := new(budget.Reservation)
	held.Open(m, holding{m, r.ID}, r)
	return held, v
}

// holding is one reservation of a memory.
type holding struct {
	*memory
	id string
}

func (m holding) Report([]int64) {}
func (m holding) Sent([]int64)   {}

func (m holding) Settle(used []int64) {
	id := m.id
	m.mu.Lock()
	lines := m.open[id]
	delete(m.open, id)
	m.settled[id] = used
	m.mu.Unlock()
	if _, err := m.store.Settle(context.Background(), []budget.Settlement{{ID: id, Epoch: "e1", Lines: lines, Used: used}}); err != nil {
		panic(err)
	}
}

func (m *memory) Correct(c budget.Correction) {
	m.mu.Lock()
	m.paused, m.atMost = append(m.paused, c.Pause), append(m.atMost, c.AtMost)
	m.mu.Unlock()
	if err := m.store.Correct(context.Background(), []budget.Correction{c}); err != nil {
		panic(err)
	}
}

// idle fails the test if a reservation is open or a slot taken.
func (m *memory) idle(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.open) > 0 {
		t.Errorf("%d reservations are left open", len(m.open))
	}
}

// watcher is an Observer that remembers.
type watcher struct {
	mu        sync.Mutex
	waits     []time.Duration
	statuses  []int
	remaining map[string]int64
	rests     []string
	spilled   []string
	resting   map[string]int
}

func (w *watcher) Spilled(_, from, to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spilled = append(w.spilled, from+" "+to)
}

func (w *watcher) QueueWait(_ string, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits = append(w.waits, d)
}

func (w *watcher) UpstreamRequest(_ string, status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statuses = append(w.statuses, status)
}

func (w *watcher) UpstreamRemaining(provider, unit string, n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.remaining == nil {
		w.remaining = map[string]int64{}
	}
	w.remaining[provider+"/"+unit] = n
}

func (w *watcher) UpstreamRest(provider, cause string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rests = append(w.rests, provider+" "+cause)
}

func (w *watcher) UpstreamResting(provider, cause string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.resting == nil {
		w.resting = map[string]int{}
	}
	w.resting[provider+" "+cause] = n
}

// plainDialect sends the body as it is, and speaks of events that are lines.
type plainDialect struct{ dialect.Dialect }

func (plainDialect) Prepare(c *dialect.Call, to dialect.Upstream) (dialect.Outbound, error) {
	if to.Model == "unspeakable" {
		return dialect.Outbound{}, fault.Invalid("model", "This model cannot be asked that.")
	}
	h := dialect.Header{}
	h.Set("Authorization", "Bearer "+to.APIKey)
	h.Set("X-Model", to.Model)
	out := dialect.Outbound{Method: "POST", URL: to.BaseURL + "/v1/chat", Header: h, Body: [][]byte{c.Body}}
	if c.Stream && !c.WantsUsage && to.InjectUsage {
		out.Body = append(out.Body, []byte(` stream_options`))
		out.Injected = true
	}
	return out, nil
}

func (plainDialect) Meter(c *dialect.Call, a dialect.Answer, o dialect.MeterOptions) dialect.Meter {
	return &lineMeter{hide: o.HideUsage}
}

// lineMeter takes every whole line for an event; "error TYPE" is a failure,
// "ready" announces an answer, "odd" says nothing that is known, and lines that begin with ':' are comments.
type lineMeter struct {
	hide   bool
	report dialect.Report
	line   []byte
}

func (m *lineMeter) Feed(p []byte) []byte {
	for _, b := range p {
		if b != '\n' {
			m.line = append(m.line, b)
			continue
		}
		if rest, ok := bytes.CutPrefix(m.line, []byte("error ")); ok {
			f := &dialect.Failure{Type: string(rest), Message: "it is " + string(rest)}
			if rest[0] >= '0' && rest[0] <= '9' {
				fmt.Sscan(string(rest), &f.Status)
			}
			m.report.Failure, m.report.FailedFirst = f, m.report.FailedFirst || !m.report.Content
		}
		if len(m.line) > 0 && m.line[0] != ':' {
			m.report.Events++
			announces := bytes.HasPrefix(m.line, []byte("ready"))
			m.report.Content = m.report.Content || m.report.Failure == nil && !announces && string(m.line) != "odd"
			if announces {
				m.report.ID = "r1"
			}
		}
		m.line = m.line[:0]
	}
	return p
}

func (m *lineMeter) End() []byte { return nil }
func (m *lineMeter) Due() bool   { return false }
func (m *lineMeter) Report() dialect.Report {
	r := m.report
	r.Stream = true
	return r
}

// job is a call that asks for nothing special.
func job(id string, targets ...Target) Job {
	return Job{
		RequestID: id, Call: &dialect.Call{Request: dialect.Request{Body: []byte("hello")}, Model: "asked"},
		Dialect: plainDialect{}, Targets: targets, Team: "team", MaxWait: NoMaxWait,
		Counter: func(Target) dialect.Counter { return func(b []byte) tokens.Count { return tokens.Count(len(b)) } },
	}
}

// streaming is the job as a stream.
func streaming(j Job) Job {
	call := *j.Call
	call.Stream = true
	j.Call = &call
	return j
}

// answer is what a scripted transport answers.
type answer struct {
	status int
	header map[string]string
	body   string
	err    error
	after  time.Duration
	// cut breaks the body off with an error after it.
	cut error
}

// script is a transport that answers by a list for each host, the last entry
// for ever, and notes what it was sent.
type script struct {
	mu      sync.Mutex
	answers map[string][]answer
	sent    []sent
	judge   func(body string) answer // in place of answers, if not nil
	bodies  int                      // of answers, not closed yet
}

type sent struct {
	at               time.Time
	host, key, model string
	body             string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(b)
	}
	s.mu.Lock()
	list := s.answers[r.URL.Host]
	a := answer{status: 200, body: "fine\n"}
	if len(list) > 0 {
		a = list[0]
		if len(list) > 1 {
			s.answers[r.URL.Host] = list[1:]
		}
	}
	if s.judge != nil {
		a = s.judge(body)
	}
	s.sent = append(s.sent, sent{time.Now(), r.URL.Host, r.Header.Get("Authorization"), r.Header.Get("X-Model"), body})
	s.mu.Unlock()
	if a.after > 0 {
		timer := time.NewTimer(a.after)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if a.err != nil {
		return nil, a.err
	}
	h := http.Header{}
	for k, v := range a.header {
		h.Set(k, v)
	}
	reader := io.Reader(bytes.NewReader([]byte(a.body)))
	if a.cut != nil {
		reader = io.MultiReader(reader, broke{a.cut})
	}
	s.mu.Lock()
	s.bodies++
	s.mu.Unlock()
	return &http.Response{StatusCode: a.status, Header: h, Body: &counted{Reader: reader, script: s}, Request: r}, nil
}

// counted is a body that is missed until it is closed.
type counted struct {
	io.Reader
	script *script
	once   sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.script.mu.Lock()
		c.script.bodies--
		c.script.mu.Unlock()
	})
	return nil
}

// closed fails the test if an answer's body was left open.
func (s *script) closed(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bodies != 0 {
		t.Errorf("%d answers were left open", s.bodies)
	}
}

// broke is a reader that fails.
type broke struct{ err error }

func (b broke) Read([]byte) (int, error) { return 0, b.err }

// hosts lists where the requests went.
func (s *script) hosts() (h []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.sent {
		h = append(h, r.host)
	}
	return h
}

// provider is one at http://NAME, with generous waiting.
func provider(name string, change func(*Provider)) *Provider {
	p := &Provider{Name: name, Dialect: "openai", BaseURL: "http://" + name, APIKeys: []string{"k"}, MaxWait: 10 * time.Second, Retries: 2}
	if change != nil {
		change(p)
	}
	return p
}

// client is one over a script.
func client(t *testing.T, m *memory, s *script, w *watcher, ps ...*Provider) *Client {
	t.Helper()
	c := Config{Providers: ps, Transport: func(*Provider) http.RoundTripper { return s }}
	if m != nil {
		c.Limiter = m
	}
	if w != nil {
		c.Observer = w
	}
	return New(c)
}

// whole reads what the client would get of a response, and ends it.
func whole(t *testing.T, r *Response) string {
	t.Helper()
	rest, err := io.ReadAll(r.Body)
	if err != nil {
		t.Errorf("reading the answer: %v", err)
	}
	r.Settle(tokens.Usage{Input: 1, Output: 1})
	if err := r.Close(); err != nil {
		t.Errorf("closing the answer: %v", err)
	}
	return string(r.Prefix) + string(rest)
}

type httpTransport = http.RoundTripper

// piped is a transport whose only answer is read from a pipe.
type piped struct{ from *io.PipeReader }

func (p piped) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: p.from, Request: r}, nil
}
