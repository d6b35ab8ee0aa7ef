package upstream

import (
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

// NoMaxWait leaves a job's waiting to the providers' configuration.
const NoMaxWait time.Duration = -1

// Job is one call to make.
type Job struct {
	// RequestID is unique; the provider's reservations are named after it.
	RequestID string
	Call      *dialect.Call
	Dialect   dialect.Dialect
	// Targets are those that speak Dialect. At least one.
	Targets []Target
	// Input and Output are the estimate: what the model will read, and the most
	// that it will produce.
	Input, Output tokens.Count
	// Model is the configured name of the model, for what is told of the job.
	Model string
	// Team and Weight place the job in the queue. A weight below 1 counts as 1.
	Team   string
	Weight int
	// MaxWait bounds all waiting of the job, beside each provider's own bound.
	// NoMaxWait: no further bound; 0: it must go at once.
	MaxWait time.Duration
	// SpillAfter is the longest wait for a turn with the targets of one order before
	// those of the next are asked.
	SpillAfter time.Duration
	// Counter returns what counts the output of a target's answer without usage.
	// Not nil.
	Counter func(Target) dialect.Counter
	// Watcher sees the tries of the job. May be nil.
	Watcher Watcher
	// Check returns why the job is refused by now, or nil; it is called while the
	// job waits, and Do then returns its error. It must not block, and is called
	// by others. nil: the job stays allowed.
	Check func() error
	// CapOutput is written into the request as its bound on output if it set
	// none. 0: nothing is written.
	CapOutput tokens.Count
}

// Watcher sees the tries of a job. Its methods must not block.
type Watcher interface {
	// Wrote is called when a try's request was written, or could not be, with why.
	// The transport calls it while Do runs.
	Wrote(err error)
	// Failed is called when a try that was sent to a target has failed: with why,
	// or nil if the provider answered with an error.
	Failed(t Target, err *fault.Error)
	// Tried is called for each try that was sent, when it has an answer's header or
	// none will come: with the status, 0 without an answer, the error, nil with a
	// good one, and how long it took.
	Tried(t Target, status int, err *fault.Error, took time.Duration)
}

// tokens is what p counts of the job when it arrives.
func (j *Job) tokens(p *Provider) tokens.Count { return p.flavor().Quota.Arrival(j.Input, j.Output) }
