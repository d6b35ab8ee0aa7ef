package alerts

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// outboxMap is what gateways share. A field is an alert for one receiver: a parcel
// until it is delivered, then a mark that says until when it is remembered.
const outboxMap = "alerts"

// mark begins the value of what was delivered, or given up.
const mark = "done:"

// outbox is the alerts that wait, of all gateways.
type outbox struct {
	store    Store
	instance string
	known    map[string]bool // fields that are there, so that they need not be added
}

// parcel is an alert on its way to one receiver.
type parcel struct {
	Alert  Alert     `json:"alert"`
	To     string    `json:"to"`
	Forget time.Time `json:"forget"`
	Tries  int       `json:"tries"`
	Next   time.Time `json:"next"` // when it is tried again
	// Claim is the gateway that tries, and ClaimEnds when it is taken for dead.
	Claim     string    `json:"claim,omitempty"`
	ClaimEnds time.Time `json:"claim_ends,omitzero"`
}

// add puts an alert in, unless it was there before.
func (o *outbox) add(ctx context.Context, a Alert, to string) error {
	field := a.ID + "@" + to
	if o.known[field] {
		return nil
	}
	text, err := json.Marshal(parcel{Alert: a, To: to, Forget: a.forget, Next: a.Time})
	if err != nil {
		return err
	}
	if _, err := o.store.Swap(ctx, outboxMap, field, "", string(text)); err != nil {
		return err
	}
	o.known[field] = true
	return nil
}

// waiting is a parcel of the outbox, and its text there.
type waiting struct {
	field, text string
	parcel
}

// due returns the parcels that are to be tried at now and that no living gateway
// tries. It forgets what is over.
func (o *outbox) due(ctx context.Context, now time.Time) ([]waiting, error) {
	fields, err := o.store.Fields(ctx, outboxMap)
	if err != nil {
		return nil, err
	}
	var due []waiting
	for field, text := range fields {
		if until, done := strings.CutPrefix(text, mark); done {
			if ms, err := strconv.ParseInt(until, 10, 64); err != nil || now.UnixMilli() > ms {
				if _, err := o.store.Swap(ctx, outboxMap, field, text, ""); err != nil {
					return nil, err
				}
			}
			continue
		}
		w := waiting{field: field, text: text}
		if json.Unmarshal([]byte(text), &w.parcel) != nil {
			continue // of a later version, which delivers it
		}
		if !now.Before(w.Next) && !now.Before(w.ClaimEnds) {
			due = append(due, w)
		}
	}
	for field := range o.known {
		if _, there := fields[field]; !there {
			delete(o.known, field)
		}
	}
	return due, nil
}

// claim makes w this gateway's until a time, and reports whether it is: another may
// have been faster.
func (o *outbox) claim(ctx context.Context, w *waiting, until time.Time) (bool, error) {
	w.Claim, w.ClaimEnds = o.instance, until
	return o.put(ctx, w)
}

// put writes w in the place of what this gateway knows of it.
func (o *outbox) put(ctx context.Context, w *waiting) (bool, error) {
	text, err := json.Marshal(w.parcel)
	if err != nil {
		return false, err
	}
	ok, err := o.store.Swap(ctx, outboxMap, w.field, w.text, string(text))
	if ok {
		w.text = string(text)
	}
	return ok, err
}

// finish marks w as done.
func (o *outbox) finish(ctx context.Context, w *waiting) error {
	_, err := o.store.Swap(ctx, outboxMap, w.field, w.text, mark+strconv.FormatInt(w.Forget.UnixMilli(), 10))
	return err
}
