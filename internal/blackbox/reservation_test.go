package blackbox

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmgw/internal/gatewaytest"
)

const reservations = "/llmgw/v1/reservations"

// reservedBy makes a reservation at a gateway and returns its path.
func reservedBy(t *testing.T, g *gatewaytest.Gateway, body string) string {
	t.Helper()
	a := g.Post(secret, reservations, body)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(a.Body), &made); err != nil || a.Status != http.StatusCreated {
		t.Fatalf("got %d %s, want 201", a.Status, a.Body)
	}
	return reservations + "/" + made.ID
}

// The gateway that made a reservation is killed: another settles what its client
// has used, and what no client comes back for ends at its ttl by the crash charge.
func TestAReservationOutlivesTheGatewayThatMadeIt(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, limits: tokensLimit() + "\n{name: slots, unit: concurrency, amount: 9}", store: "reclaim_after: 3s\ncrash_charge: full"})
	killed, other := w.all[0], w.all[1]
	settled := reservedBy(t, killed, `{"model":"m","input_tokens":100,"max_output_tokens":900}`)
	lost := reservedBy(t, killed, `{"model":"m","input_tokens":7,"max_output_tokens":0,"ttl":8}`)
	deleted := reservedBy(t, killed, `{"amounts":{"tokens":5000}}`)
	killed.Kill()
	w.all, w.Gateway = w.all[1:], other

	for range 2 {
		if a := other.Post(secret, settled+"/settle", `{"usage":{"prompt_tokens":90,"completion_tokens":10}}`); a.Status != http.StatusOK {
			t.Fatalf("settle: got %d %s", a.Status, a.Body)
		}
	}
	if a := w.send(http.MethodDelete, deleted, secret, ""); a.Status != http.StatusNoContent {
		t.Fatalf("delete: got %d %s", a.Status, a.Body)
	}
	other.Eventually("the rest ends at its ttl", 3*eventually, func() bool { return other.Limit("search", "slots").Open == 0 })
	if got := 100_000 - other.Limit("search", "tokens").Remaining; got != 107 {
		t.Errorf("%v tokens are charged, want 100 and 7", got)
	}
	if a := other.Post(secret, lost+"/settle", `{"amounts":{"tokens":1}}`); a.Status != http.StatusConflict || a.Code() != "already_ended" {
		t.Errorf("a settle after the ttl: got %d %s", a.Status, a.Body)
	}
	other.Eventually("both are counted", eventually, func() bool {
		m := other.Metrics()
		return m.Sum("llmgw_requests_total", "endpoint", "reservation", "outcome", "completed") == 1 && m.Sum("llmgw_requests_total", "endpoint", "reservation", "outcome", "reclaimed") == 1
	})
}

// While Redis is away, what it holds cannot be settled, and nothing is lost: the
// client comes back, and is charged once.
func TestAReservationIsSettledWhenRedisIsBack(t *testing.T) {
	w := start(t, setup{redis: true, limits: tokensLimit(), redisKey: "timeout: 100ms"})
	path := reservedBy(t, w.Gateway, `{"model":"m","input_tokens":100,"max_output_tokens":900}`)
	w.redis.Pause()
	if a := w.Post(secret, path+"/settle", `{"amounts":{"tokens":40}}`); a.Status != http.StatusServiceUnavailable || a.Code() != "limiter_unavailable" || a.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %s, want 503", a.Status, a.Body)
	}
	w.redis.Resume()
	w.Eventually("it is settled", 3*eventually, func() bool {
		return w.Post(secret, path+"/settle", `{"amounts":{"tokens":40}}`).Status == http.StatusOK
	})
	w.Eventually("the store is up", eventually, func() bool { return w.Metrics().Sum("llmgw_store_up") == 1 })
	w.Eventually("it is charged", eventually, func() bool {
		l := w.Limit("search", "tokens")
		return l.Open == 0 && l.Remaining == 100_000-40
	})
}

func TestASocketServesAKeyOfItsOwn(t *testing.T) {
	dir, err := os.MkdirTemp("", "llmgw") // shorter than a test's own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	w := start(t, setup{limits: tokensLimit(), server: fmt.Sprintf("socket: %s\nsocket_key: search-key", path)})
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	post := func(key string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://socket"+reservations, strings.NewReader(`{"amounts":{"tokens":10}}`))
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket: got %v, %v, want mode 0660", info, err)
	}
	if got := post(""); got != http.StatusCreated {
		t.Errorf("without a key: got %d", got)
	}
	if got := w.Limit("search", "tokens").Open; got != 10 {
		t.Errorf("%v are open of the socket's team, want 10", got)
	}
	if got := post("sk-wrong"); got != http.StatusUnauthorized {
		t.Errorf("with a wrong key: got %d", got)
	}
	if got := post(other); got != http.StatusCreated {
		t.Errorf("with another key: got %d", got)
	}
	if got := w.Limit("search", "tokens").Open; got != 10 {
		t.Errorf("%v are open of the socket's team, want 10 still", got)
	}
	if a := w.Post("", reservations, `{"amounts":{"tokens":10}}`); a.Status != http.StatusUnauthorized {
		t.Errorf("over TCP without a key: got %d", a.Status)
	}
}
