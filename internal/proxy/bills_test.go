package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"llmgw/internal/budget"
)

const (
	inBackground = `{"model":"m","input":"hi","background":true,"max_output_tokens":4096}`
	stillQueued  = `{"id":"resp_1","status":"queued","usage":null}`
	cancelled    = `{"id":"resp_1","status":"cancelled","usage":null}`
)

// usedInBackground is a response that has ended.
func usedInBackground(input, output int) string {
	return fmt.Sprintf(`{"id":"resp_1","status":"completed","output":[],"usage":{"input_tokens":%d,"output_tokens":%d}}`, input, output)
}

// goingOn answers a call for a response in the background, and then what it is.
func goingOn(is *string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/responses" || r.URL.Path == "/v1/responses" {
			says("application/json", stillQueued)(w, r)
			return
		}
		says("application/json", *is)(w, r)
	}
}

// F4: what a response in the background has used is debited whenever it is seen.
func TestTheUseOfABackgroundResponseIsDebitedWheneverItIsSeen(t *testing.T) {
	const input, reserved = 8, 8 + 4096
	get := "GET /v1/responses/resp_1"
	for _, s := range []struct {
		what  string
		story func(h *house, is *string)
		want  int64
	}{
		{"in time", func(h *house, is *string) {
			*is = usedInBackground(10, 90)
			h.ask(get, "")
			h.ask(get, "")
		}, 100},
		{"in time, and more than was reserved", func(h *house, is *string) {
			*is = usedInBackground(100, 65_000)
			h.ask(get, "")
			h.ask(get, "")
		}, 65_100},
		{"never", func(*house, *string) { time.Sleep(3 * time.Minute) }, reserved},
		{"late, and more than was reserved", func(h *house, is *string) {
			time.Sleep(3 * time.Minute)
			*is = usedInBackground(100, 65_000)
			h.ask(get, "")
			h.ask(get, "")
		}, 65_100},
		{"late, and less", func(h *house, is *string) {
			time.Sleep(3 * time.Minute)
			*is = usedInBackground(5, 65)
			h.ask(get, "")
		}, reserved},
		{"by another gateway", func(h *house, is *string) {
			*is = usedInBackground(100, 65_000)
			h.another(func(h *house) { h.ask(get, "") })
			time.Sleep(3 * time.Minute)
		}, 65_100},
		{"by another gateway, and then here", func(h *house, is *string) {
			*is = usedInBackground(100, 65_000)
			h.another(func(h *house) { h.ask(get, "") })
			h.ask(get, "")
		}, 65_100},
		{"late, by another gateway", func(h *house, is *string) {
			time.Sleep(3 * time.Minute)
			*is = usedInBackground(100, 65_000)
			h.another(func(h *house) { h.ask(get, ""); h.ask(get, "") })
		}, 65_100},
		{"as a cancelled one that does not say", func(h *house, is *string) {
			*is = cancelled
			h.ask("POST /v1/responses/resp_1/cancel", "")
		}, reserved},
		{"as a cancelled one that says it later", func(h *house, is *string) {
			*is = cancelled
			h.ask("POST /v1/responses/resp_1/cancel", "")
			*is = strings.Replace(usedInBackground(100, 65_000), "completed", "cancelled", 1)
			h.ask(get, "")
		}, 65_100},
	} {
		t.Run(s.what, func(t *testing.T) {
			is := stillQueued
			inHouse(t, setting{}, goingOn(&is), func(h *house) {
				if got := h.ask("/v1/responses", inBackground); got.status != http.StatusOK {
					t.Fatalf("got %d %s", got.status, got.body)
				}
				h.idle()
				s.story(h, &is)
				h.idle()
				if got := h.limiter.total(budget.Tokens); got != s.want {
					t.Errorf("charged %d, want %d", got, s.want)
				}
				var recorded int64
				for _, e := range h.entries.all {
					recorded += int64(e.Usage.Total())
				}
				if recorded != s.want {
					t.Errorf("recorded %d, want %d", recorded, s.want)
				}
				if n := h.limiter.open(); n != 0 {
					t.Errorf("%d reservations are open", n)
				}
			})
		})
	}
}

// What goes on without anybody who looks has a bound.
func TestABackgroundResponseHasABound(t *testing.T) {
	var sent string
	inHouse(t, setting{}, func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 1000)
		n, _ := r.Body.Read(body)
		sent = string(body[:n])
		says("application/json", stillQueued)(w, r)
	}, func(h *house) {
		h.ask("/v1/responses", `{"model":"m","input":"hi","background":true}`)
		if !strings.Contains(sent, `"max_output_tokens":4096`) {
			t.Errorf("sent %s", sent)
		}
		time.Sleep(3 * time.Minute)
	})
}
