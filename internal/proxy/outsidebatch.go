package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"llmgw/internal/charge"
	"llmgw/internal/fault"
)

const (
	mostBatched = 1000 // operations of one batch
	batchAtOnce = 64   // of them at work: what a store takes in one call
)

// batched is one operation of a batch: a reservation, or the end of one.
type batched struct {
	Reserve json.RawMessage `json:"reserve"`
	Settle  json.RawMessage `json:"settle"`
	Delete  bool            `json:"delete"`
	ID      string          `json:"id"`
}

// batchedAnswer is what the operation would have been answered alone.
type batchedAnswer struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
	Body   json.RawMessage   `json:"body,omitempty"`
}

// batch answers POST reservations:batch: each operation by itself, in no order,
// with the answers in the order of the operations.
func (c *outsideCall) batch() error {
	var ask struct {
		Operations []batched `json:"operations"`
	}
	if err := c.decode(&ask); err != nil {
		return err
	}
	if n := len(ask.Operations); n == 0 || n > mostBatched {
		return fault.Invalid("operations", fmt.Sprintf("operations has %d items; 1 to %d are allowed.", n, mostBatched))
	}
	answers := make([]batchedAnswer, len(ask.Operations))
	var group sync.WaitGroup
	turns := make(chan struct{}, batchAtOnce)
	for i := range ask.Operations {
		turns <- struct{}{}
		group.Go(func() {
			defer func() { <-turns }()
			answers[i] = c.one(&ask.Operations[i])
		})
	}
	group.Wait()
	return c.answer(http.StatusOK, map[string]any{"answers": answers})
}

// one does one operation for the batch's client.
func (c *outsideCall) one(b *batched) batchedAnswer {
	w := &written{header: http.Header{}, status: http.StatusOK}
	one := c.outsideCall(w, c.r)
	defer c.record(one.rec)
	one.rules, one.who, one.since, one.rec.caller, one.id = c.rules, c.who, c.since, c.who, b.ID
	one.rec.ok()
	var do func() error
	switch {
	case b.Reserve != nil && b.Settle == nil && !b.Delete:
		one.body, do = b.Reserve, one.reserve
	case b.Settle != nil && b.Reserve == nil && !b.Delete:
		one.body, do = b.Settle, one.settle
	case b.Delete && b.Reserve == nil && b.Settle == nil:
		do = one.remove
	default:
		do = func() error {
			return fault.Invalid("operations", "An operation has reserve, or id and settle, or id and delete.")
		}
	}
	if err := do(); err != nil {
		one.rec.ending = charge.Ending{}
		e := fault.From(err)
		one.rec.refused(e)
		one.rec.status = writeFault(w, one.rec.route.dialect, e, one.rec.id)
	}
	a := batchedAnswer{Status: w.status, Body: w.body.Bytes()}
	if w.status >= http.StatusBadRequest {
		a.Header = map[string]string{}
		for name, values := range w.header {
			a.Header[name] = strings.Join(values, ", ")
		}
	}
	return a
}

// written is a response that is kept.
type written struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *written) Header() http.Header         { return w.header }
func (w *written) WriteHeader(status int)      { w.status = status }
func (w *written) Write(p []byte) (int, error) { return w.body.Write(p) }
