package alerts

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// The bounds of delivery. A try takes sendTimeout at most, and its gateway is taken
// for dead after claimLasts. Between tries are pauses from firstPause, each twice
// the last, up to longestPause, until the alert is giveUpAfter old.
const (
	sendTimeout  = 10 * time.Second
	claimLasts   = 30 * time.Second
	writeTimeout = 2 * time.Second // of what came of a try
	firstPause   = time.Second
	longestPause = time.Hour
	giveUpAfter  = 24 * time.Hour
)

// atOnce bounds the deliveries to one receiver at a time: one that hangs holds up
// its own alerts alone.
const atOnce = 4

// deliver starts the delivery of what is due. Deliveries end with run.
func (a *Alerts) deliver(ctx, run context.Context, receivers []Receiver) error {
	now := a.config.Now()
	due, err := a.outbox.due(ctx, now)
	if err != nil {
		return err
	}
	slices.SortFunc(due, func(a, b waiting) int { return a.Next.Compare(b.Next) })
	for _, w := range due {
		i := slices.IndexFunc(receivers, func(r Receiver) bool { return r.Name == w.To })
		if i < 0 || !a.enter(w.To) {
			continue // it is not configured here, or busy
		}
		ok, err := a.outbox.claim(ctx, &w, now.Add(claimLasts))
		if err != nil || !ok {
			a.leave(w.To)
			if err != nil {
				return err
			}
			continue
		}
		r := receivers[i]
		a.sending.Go(func() {
			defer a.leave(r.Name)
			a.try(run, r, w)
		})
	}
	return nil
}

func (a *Alerts) enter(receiver string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy[receiver] >= atOnce {
		return false
	}
	a.busy[receiver]++
	return true
}

func (a *Alerts) leave(receiver string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy[receiver]--
}

// try sends w once and writes down what came of it.
func (a *Alerts) try(run context.Context, r Receiver, w waiting) {
	ctx, cancel := context.WithTimeout(run, sendTimeout)
	err := r.send(ctx, w.Alert)
	cancel()
	outcome := "delivered"
	if err != nil {
		outcome = "failed"
	}
	a.config.Tried(r.Name, outcome)
	ctx, cancel = context.WithTimeout(context.WithoutCancel(run), writeTimeout)
	defer cancel()
	now := a.config.Now()
	switch {
	case err != nil && run.Err() != nil: // this gateway stops: another one, or its next life, tries
		w.Claim, w.ClaimEnds = "", time.Time{}
		_, err = a.outbox.put(ctx, &w)
	case err == nil:
		err = a.outbox.finish(ctx, &w)
	case now.Sub(w.Alert.Time) >= giveUpAfter:
		a.config.Logger.Error("an alert was not delivered in a day and is given up", "receiver", r.Name, "alert", w.Alert.ID, "error", err.Error())
		err = a.outbox.finish(ctx, &w)
	default:
		if w.Tries == 0 {
			a.config.Logger.Warn("an alert cannot be delivered: it is tried again", "receiver", r.Name, "alert", w.Alert.ID, "error", err.Error())
		}
		w.Next, w.Claim, w.ClaimEnds = now.Add(pause(w.Tries)), "", time.Time{}
		w.Tries++
		_, err = a.outbox.put(ctx, &w)
	}
	if err != nil { // it is sent again when the claim ends, with the same id
		a.config.Logger.Debug("what came of an alert cannot be written", "alert", w.Alert.ID, "error", err.Error())
	}
}

// pause is how long to wait after so many tries that failed, a quarter of it by
// chance.
func pause(tries int) time.Duration {
	p := longestPause
	if tries < 12 {
		p = min(firstPause<<tries, longestPause)
	}
	return p - time.Duration(rand.Int64N(int64(p/4)))
}

// send sends alert once.
func (r Receiver) send(ctx context.Context, alert Alert) error {
	body, err := r.body(alert)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("receiver %s: its url cannot be called", r.Name)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "llmgw")
	if r.Format == JSON && r.Secret != "" {
		mac := hmac.New(sha256.New, []byte(r.Secret))
		mac.Write(body)
		request.Header.Set("X-LLMGW-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	answer, err := r.client().Do(request)
	if err != nil {
		return fmt.Errorf("receiver %s: %w", r.Name, withoutURL(err))
	}
	defer answer.Body.Close()                                       //nolint:errcheck // only read from
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // what it says is not wanted
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("receiver %s answers with status %d", r.Name, answer.StatusCode)
	}
	return nil
}

// body is alert as the receiver wants it.
func (r Receiver) body(alert Alert) ([]byte, error) {
	if r.Format == Slack {
		return json.Marshal(map[string]string{"text": alert.Text})
	}
	return json.Marshal(alert)
}
