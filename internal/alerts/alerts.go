// Package alerts sends word of what people should know: a budget that is nearly
// spent, refusals, a provider that is down, a key that expires. Each alert is raised
// once for the whole fleet and delivered at least once to each of its receivers,
// also if the gateway that sends it dies.
//
// rules.go says what raises an alert, outbox.go keeps alerts until they are
// delivered, send.go delivers one, dial.go says where to; this file is the loop.
//
// It is not for metrics, which have rules of their own, and it holds no request up.
package alerts

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"llmgw/internal/budget"
)

// Kind is what a rule watches.
type Kind string

// The kinds.
const (
	Budget       Kind = "budget"
	Forecast     Kind = "forecast"
	Refusals     Kind = "refusals"
	ProviderDown Kind = "provider_down"
	KeyExpires   Kind = "key_expires"
)

// Rule says when to raise an alert, and who receives it.
type Rule struct {
	Name string
	On   Kind
	// Limits are patterns of limits as X-LLMGW-Limited-By names them; * stands for any
	// text without a slash. Of Budget, Forecast and Refusals. nil: all limits.
	Limits []string
	// At are parts of a budget in percent. Of Budget.
	At []int64
	// Above refusals of a limit Within raise an alert. Of Refusals.
	Above  int64
	Within time.Duration
	For    time.Duration // how long a provider must be down. Of ProviderDown
	Before time.Duration // how long before a key expires. Of KeyExpires
	To     []string      // names of receivers
}

// Format is how a receiver wants an alert.
type Format string

// The formats.
const (
	JSON  Format = "json"
	Slack Format = "slack"
)

// Receiver is where alerts are sent.
type Receiver struct {
	Name   string
	URL    string
	Format Format
	Secret string // signs the body of JSON. Empty: it is not signed
	// Private addresses are refused unless this is set.
	AllowPrivate bool
}

// Alert is what people should know.
type Alert struct {
	ID    string    `json:"id"` // the same whenever it is sent again
	Time  time.Time `json:"time"`
	Rule  string    `json:"rule"`
	On    Kind      `json:"on"`
	Limit string    `json:"limit"` // or provider/NAME, or key/ID
	// PeriodStart is when the budget's period, the window or the outage began.
	PeriodStart time.Time `json:"period_start"`
	Threshold   int64     `json:"threshold"` // percent of a budget, or a number
	// Used is what was charged: open reservations do not count.
	Used   Number `json:"used"`
	Amount Number `json:"amount"`
	Unit   string `json:"unit"`
	Text   string `json:"text"`

	forget time.Time // when nobody can raise it again
}

// Store is what all gateways have in common: maps of short texts.
type Store interface {
	Fields(ctx context.Context, name string) (map[string]string, error)
	// Swap puts value in the place of old, where "" is no field, and reports whether
	// old was there.
	Swap(ctx context.Context, name, field, old, value string) (bool, error)
}

// Sources are what rules look at. All are safe for concurrent use.
type Sources struct {
	// Limits are those in force that have one counter.
	Limits func() []*budget.Limit
	Read   func(ctx context.Context, lines []budget.Line) ([]budget.LineState, time.Time, error)
	// Refused is how often each limit refused at all gateways in the last minutes.
	Refused func(ctx context.Context, minutes int) (map[string]int64, error)
	// Down are the providers that this gateway cannot use now.
	Down func() []string
	// Expiring are the keys that expire, and when.
	Expiring func() map[string]time.Time
}

// Config is what alerts are made of.
type Config struct {
	Store    Store
	Instance string // of this gateway, unlike all others
	Sources  Sources
	// Rules and Receivers are those in force. They are asked each time.
	Rules  func() ([]Rule, []Receiver)
	Tried  func(receiver, outcome string) // called for each try: delivered or failed; nil: nobody listens
	Logger *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// Alerts raises and delivers them.
type Alerts struct {
	config  Config
	outbox  outbox
	down    map[string]time.Time // since when this gateway has seen a provider down
	sending sync.WaitGroup
	mu      sync.Mutex
	busy    map[string]int // deliveries under way, by receiver
}

// New returns alerts that nobody looks for yet.
func New(c Config) *Alerts {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Tried == nil {
		c.Tried = func(string, string) {}
	}
	return &Alerts{
		config: c, outbox: outbox{store: c.Store, instance: c.Instance, known: map[string]bool{}},
		down: map[string]time.Time{}, busy: map[string]int{},
	}
}

// lookEvery is how often rules are looked at, and what waits is sent.
const lookEvery = 2 * time.Second

// Run looks and sends until ctx ends, and waits for what is under way.
func (a *Alerts) Run(ctx context.Context) {
	defer a.sending.Wait()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		a.step(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// step looks once. What fails now is done by a later step.
func (a *Alerts) step(ctx context.Context) {
	rules, receivers := a.config.Rules()
	if len(receivers) == 0 {
		return
	}
	run := ctx
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	for _, r := range rules {
		raised, err := a.look(ctx, r)
		if err == nil {
			err = a.raise(ctx, r, raised)
		}
		if err != nil {
			a.config.Logger.Debug("a rule of alerts cannot be looked at", "rule", r.Name, "error", err.Error())
		}
	}
	if err := a.deliver(ctx, run, receivers); err != nil {
		a.config.Logger.Debug("alerts cannot be delivered now", "error", err.Error())
	}
}

func (a *Alerts) raise(ctx context.Context, r Rule, raised []Alert) error {
	for _, alert := range raised {
		for _, to := range r.To {
			if err := a.outbox.add(ctx, alert, to); err != nil {
				return err
			}
		}
	}
	return nil
}
