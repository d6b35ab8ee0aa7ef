package blackbox

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// bomb is a request of about 30 MB that takes 30 KB on the wire. Each n is
// another, so that nothing of it is remembered.
func bomb(t *testing.T, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	fmt.Fprintf(w, `{"model":"sim-in8-out1","max_tokens":1,"messages":[{"role":"user","content":"%d`, n)
	piece := bytes.Repeat([]byte("the quick brown fox "), 50_000)
	for range 30 {
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprint(w, `"}]}`)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// postZipped sends a compressed request and returns the status and the error code.
func (w *world) postZipped(key string, body []byte) (status int, code string, err error) {
	r, err := http.NewRequest(http.MethodPost, w.URL+chat, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Encoding", "gzip")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }() // only the head is looked at
	return resp.StatusCode, resp.Header.Get("X-LLMGW-Error-Code"), nil
}

// mostMemory is the most bytes of memory that the gateway has had.
func (w *world) mostMemory() int64 {
	w.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.PID()))
	if err != nil {
		w.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	peak, _, _ := strings.Cut(rest, "kB")
	kilobytes, err := strconv.ParseInt(strings.TrimSpace(peak), 10, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return kilobytes << 10
}

// heldUp is for how long Redis has been ready to run and had no processor.
func (w *world) heldUp() time.Duration {
	w.t.Helper()
	times, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", w.redis.Pid))
	if err != nil {
		w.t.Fatal(err)
	}
	var ran, waited time.Duration
	if _, err := fmt.Sscan(string(times), &ran, &waited); err != nil {
		w.t.Fatal(err)
	}
	return waited
}

// Eight connections of one key send nothing but small requests that become large.
// The limits of others are closed when the store is away, and it is not.
func TestWorkOnOneTeamsBodiesIsNoOutageForAnother(t *testing.T) {
	w := start(t, setup{
		alone: true, redis: true, redisKey: "timeout: 20ms",
		common: "{name: all, unit: requests, amount: 10M, per: minute, when_store_down: closed}",
		limits: "{name: tpm, unit: tokens, amount: 1000, per: minute}",
	})
	body := bomb(t, 1)
	w.Post(other, chat, ask("sim-in8-out1")) // connections are made, and the vocabulary is read
	var stop atomic.Bool
	var bombs atomic.Int64
	var attackers sync.WaitGroup
	for range 8 {
		attackers.Go(func() {
			for !stop.Load() {
				status, code, err := w.postZipped(secret, body)
				if err != nil || status != 400 || code != "exceeds_limit" {
					t.Errorf("a large request: got %d %s, %v; want 400 exceeds_limit", status, code, err)
					return
				}
				bombs.Add(1)
			}
		})
	}
	outcomes := map[string]int{}
	late := 0 // calls refused since the last that was served
	for began, held := time.Now(), w.heldUp(); bombs.Load() < 40 && time.Since(began) < time.Minute; {
		a := w.Post(other, chat, ask("sim-in8-out1"))
		outcomes[fmt.Sprint(a.Status, " ", a.Code())]++
		if a.Status != 200 {
			late++
			continue
		}
		// A machine with too much to do may hold Redis itself up: then it is late.
		now := w.heldUp()
		if late > 0 && now-held < 20*time.Millisecond {
			t.Errorf("%d calls were refused, and Redis waited for a processor for %v", late, now-held)
		}
		held, late = now, 0
	}
	stop.Store(true)
	attackers.Wait()
	t.Logf("beside %d large requests the other team got %v; at most %d MB of memory", bombs.Load(), outcomes, w.mostMemory()>>20)
	if outcomes["200 "] == 0 {
		t.Errorf("the other team got %v", outcomes)
	}
	w.Eventually("all bodies are let go of", eventually, func() bool { return w.Metrics().Sum("llmgw_body_bytes") == 0 })
}
