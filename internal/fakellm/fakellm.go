// Package fakellm is a simulated model provider: an http.Handler that speaks
// the APIs of OpenAI, Anthropic, Gemini,
// Bedrock, Cohere and Ollama the way the real ones do, so that
// their official clients read it, and that does on demand what providers do on
// bad days. The name of the model is the script (Usage), so any client can
// write one. It enforces limits of its own, and counts what it saw.
//
// It is used by tests, benchmarks and the embedded default configuration. It
// is not a model (its text is a fixed cycle of words), not a validator of
// requests, and it shares no code with the gateway: where the two agree, they
// agree over the wire.
//
// fakellm.go is the path of a request. What is asked is read by route.go and
// request.go, with json.go; what to do about it is in script.go; how much is
// left is in limit.go; what was seen is in stats.go. answer.go decides what to
// say, one file per API says it in its words (chat.go, completions.go,
// responses.go, stored.go, anthropic.go, gemini.go, bedrock.go,
// cohere.go, ollama.go, small.go, media.go, errors.go), and
// stream.go sends it over time, with sse.go for the framing and text.go for the
// words. flags.go reads its options from a command line.
package fakellm

import (
	"io"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// maxBody is the longest request that is read, in bytes.
const maxBody = 128 << 20

// Options says how a Provider behaves where no script says otherwise. The zero
// Options is a provider without limits that answers at once.
type Options struct {
	// RPM and TPM are the most requests and tokens in any minute. 0: no limit.
	RPM, TPM int64
	// Window, if above 0, is a shorter interval that is judged as well: its share
	// of RPM and TPM, rounded down but at least 1, is the most in any interval of
	// that length.
	Window time.Duration
	// Concurrency is the most requests in flight. 0: no limit.
	Concurrency int64
	// PerKey gives every API key limits of its own.
	PerKey bool
	// TokenCost says what a request counts against TPM. Empty: CostReserved.
	TokenCost TokenCost
	// DefaultMaxOutput is what a request without a maximum counts as one, against
	// TPM. 0: 4096.
	DefaultMaxOutput int64
	// Calls are the arguments, a JSON object, that a tool of each name is called
	// with. A tool with arguments here is called rather than the request's first.
	Calls map[string]string
	// Keys are the API keys that are accepted. Empty: any, or none.
	Keys []string
	// Latency passes before the headers, ChunkInterval between the chunks of a
	// stream.
	Latency, ChunkInterval time.Duration
	// Script is the model name whose script plain names follow. Empty: "sim".
	Script string
	// Record is how many of the last requests are kept with their bodies.
	// 0: 64; below 0: none.
	Record int
	// Now is the clock of limits and records. nil: time.Now.
	Now func() time.Time
	// Logger gets a line for each request, at debug level. nil: none.
	Logger *slog.Logger
}

// Provider is a simulated provider. It is safe for concurrent use.
type Provider struct {
	options Options
	plain   Script // of names that are no script
	limits  *limits
	stats   *counters
	stored  *shelf
	ids     atomic.Int64
	scripts sync.Map // model name → *Script, at most maxNames of them
	names   atomic.Int64
}

// New returns a Provider. It panics if options.Script is no script.
func New(options Options) *Provider {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.Script == "" {
		options.Script = "sim"
	}
	if options.DefaultMaxOutput == 0 {
		options.DefaultMaxOutput = 4096
	}
	if options.Record == 0 {
		options.Record = 64
	}
	plain, err := ParseScript(options.Script)
	if err != nil {
		panic("fakellm: " + err.Error())
	}
	return &Provider{
		options: options,
		plain:   plain.with(options),
		limits:  newLimits(options),
		stats:   newCounters(max(options.Record, 0)),
		stored:  newShelf(),
	}
}

// Server returns a server of p, for HTTP/1 and for HTTP/2 without TLS, which is
// what AWS's clients speak to an address that begins with http.
func (p *Provider) Server() *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second, Protocols: &protocols}
}

// ServeHTTP answers one request.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.control(w, r) {
		return
	}
	e, status := route(r)
	e.api.identify(w.Header(), p.ids.Add(1))
	if status != http.StatusOK {
		e.refuse(w, fault{status: status, message: "Unknown request URL: " + r.Method + " " + r.URL.Path + "."})
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		e.refuse(w, fault{status: http.StatusBadRequest, message: "The body could not be read: " + err.Error() + "."})
		return
	}
	seen := p.stats.begin(r, body, p.options.Now())
	outcome := Aborted // the worst, until something better is known
	defer func() {
		p.stats.end(seen, outcome, p.options.Now())
		p.options.Logger.Debug("request", "path", r.URL.Path, "model", seen.Model, "outcome", outcome)
	}()
	outcome = p.answer(w, r, e, body, seen)
}

// answer judges a request and answers it. It returns how that ended.
func (p *Provider) answer(w http.ResponseWriter, r *http.Request, e endpoint, body []byte, seen *Seen) Outcome {
	if !p.accepts(seen.Key) {
		return e.refuse(w, badKey)
	}
	q, f := readRequest(e, body, p.options.Calls)
	if f.status != 0 {
		return e.refuse(w, f)
	}
	p.stats.name(seen, q.model)
	script, f := p.script(q)
	if f.status != 0 {
		return e.refuse(w, f)
	}
	q.script, q.gzip = script, acceptsGzip(r.Header)
	cost := q.cost(p.options)
	turn, f := p.limits.take(seen.Key, cost, p.options.Now())
	turn.headers(w.Header(), e.api, p.options.Now())
	if f.status != 0 {
		f.model = q.model
		e.refuse(w, f)
		return Limited
	}
	defer turn.release()
	a := p.compose(q, p.stats.admit(seen, q.model))
	outcome := p.send(w, r, a, seen)
	if outcome == Done {
		p.stats.used(a.usage)
	}
	turn.settle(a.usage.input+a.usage.output, outcome)
	return outcome
}

// accepts tells whether key opens this provider.
func (p *Provider) accepts(key string) bool {
	for _, k := range p.options.Keys {
		if k == key {
			return true
		}
	}
	return len(p.options.Keys) == 0
}

// script is what q's model asks for.
func (p *Provider) script(q *request) (*Script, fault) {
	if !isScript(q.model) {
		return &p.plain, fault{}
	}
	if s, ok := p.scripts.Load(q.model); ok {
		return s.(*Script), fault{}
	}
	s, err := ParseScript(q.model)
	if err != nil {
		return nil, fault{status: http.StatusNotFound, code: "model_not_found", message: "The model `" + q.model + "` does not exist: " + err.Error() + "."}
	}
	filled := s.with(p.options)
	if p.names.Add(1) <= maxNames {
		p.scripts.Store(q.model, &filled)
	}
	return &filled, fault{}
}

// readBody reads a request's body whole.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 || r.Method == http.MethodGet {
		return nil, nil
	}
	src := http.MaxBytesReader(w, r.Body, maxBody)
	if r.ContentLength > 0 && r.ContentLength <= maxBody {
		body := make([]byte, r.ContentLength)
		_, err := io.ReadFull(src, body)
		return body, err
	}
	return io.ReadAll(src)
}

// ceilDiv is ⌈a/b⌉ for b > 0 and a ≥ 0.
func ceilDiv(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return a / b
	}
	return (a + b - 1) / b
}
