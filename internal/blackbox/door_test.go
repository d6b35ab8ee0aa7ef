package blackbox

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

const threeOfAnAddress = "{name: ip-rpm, scope: ip, unit: requests, amount: 3, per: hour}"

func TestCallsWithoutAValidKeyCountAgainstTheLimitsOfTheirAddress(t *testing.T) {
	for _, s := range []struct{ what, method, path, key string }{
		{"an unknown key", "POST", chat, "sk-llmgw-unknown"},
		{"no key", "POST", "/v1/messages", ""},
		{"a list of models", "GET", "/v1/models", "sk-llmgw-unknown"},
	} {
		t.Run(s.what, func(t *testing.T) {
			w := start(t, setup{common: threeOfAnAddress})
			for i := range 3 {
				if a := w.send(s.method, s.path, s.key, ask("sim-out1")); a.Status != 401 {
					t.Fatalf("call %d: got %d, want 401\n%s", i, a.Status, a.Body)
				}
			}
			if a := w.send(s.method, s.path, s.key, ask("sim-out1")); a.Status != 429 || a.LimitedBy() != "ip/ip-rpm" {
				t.Errorf("the fourth: got %d by %q, want 429 by ip/ip-rpm\n%s", a.Status, a.LimitedBy(), a.Body)
			}
			if a := w.Post(secret, chat, ask("sim-out1")); a.Status != 429 || a.LimitedBy() != "ip/ip-rpm" {
				t.Errorf("a call of the same address: got %d by %q, want 429 by ip/ip-rpm\n%s", a.Status, a.LimitedBy(), a.Body)
			}
			if n := len(w.provider.Stats().Last); n != 0 {
				t.Errorf("%d calls reached the provider", n)
			}
		})
	}
	t.Run("a valid key counts once", func(t *testing.T) {
		w := start(t, setup{common: threeOfAnAddress})
		for i := range 4 {
			if a := w.Post(secret, chat, ask("sim-out1")); (a.Status == 200) != (i < 3) {
				t.Errorf("call %d: got %d\n%s", i, a.Status, a.Body)
			}
		}
	})
	t.Run("a limit of tokens is not asked", func(t *testing.T) {
		w := start(t, setup{common: "{name: ip-tpm, scope: ip, unit: tokens, amount: 1, per: hour}"})
		for range 3 {
			if a := w.Post("sk-llmgw-unknown", chat, ask("sim-out1")); a.Status != 401 {
				t.Errorf("got %d, want 401\n%s", a.Status, a.Body)
			}
		}
	})
}

func TestAConnectIsNoTunnel(t *testing.T) {
	w := start(t, setup{})
	if head := w.raw("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"); !strings.HasPrefix(head, "HTTP/1.1 405 ") {
		t.Errorf("got %q, want 405", head)
	}
	if head := w.raw("CONNECT /v1/responses HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); !strings.HasPrefix(head, "HTTP/1.1 4") {
		t.Errorf("got %q, want a refusal", head)
	}
}

func TestARequestOfTwoLengthsIsRefusedAndItsConnectionClosed(t *testing.T) {
	w := start(t, setup{})
	body := ask("sim-out1")
	for _, head := range []string{
		"POST " + chat + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + "\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST " + chat + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + "\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
	} {
		answer := w.raw(head + "0\r\n\r\nPOST " + chat + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + "\r\n\r\n" + body)
		if !strings.HasPrefix(answer, "HTTP/1.1 400 ") || !strings.Contains(answer, "Connection: close") || strings.Count(answer, "HTTP/1.1 ") != 1 {
			t.Errorf("got %q, want one 400 and a closed connection", answer)
		}
	}
}

// raw writes text to a new connection and returns all that comes until the
// gateway closes it, or goes on waiting for more.
func (w *world) raw(text string) string {
	w.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "http://"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // it was read
	_ = conn.SetDeadline(time.Now().Add(eventually))
	if _, err := io.WriteString(conn, text); err != nil {
		w.t.Fatal(err)
	}
	if half, ok := conn.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
	answer, _ := io.ReadAll(conn) // as far as it came
	return string(answer)
}

func TestTheDataPortSaysWhetherItIsReady(t *testing.T) {
	w := start(t, setup{})
	w.Eventually("ready", eventually, func() bool {
		a := w.send("GET", "/readyz", "", "")
		return a.Status == 200 && strings.Contains(a.Body, `"status":"ok"`)
	})
}
