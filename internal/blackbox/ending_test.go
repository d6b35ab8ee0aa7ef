package blackbox

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"llmgw/internal/gatewaytest"
)

func TestD1D2D4ALeavingClientEndsTheProvidersWorkAndPaysForWhatCame(t *testing.T) {
	w := start(t, setup{alone: true, limits: tokensLimit()})
	resp, err := w.Open(secret, chat, ask("sim-out400-every20ms", streamed))
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(resp.Body)
	for chunks := 0; chunks < 10 && in.Scan(); {
		if strings.HasPrefix(in.Text(), "data: ") {
			chunks++
		}
	}
	resp.Body.Close()
	began := time.Now()
	w.provider.AwaitIdle(time.Second)
	if got := w.provider.Stats().PeerGone; got != 1 {
		t.Errorf("the provider saw %d connections closed, want 1 (after %v)", got, time.Since(began))
	}
	if got := w.spent("tokens"); got < promptTokens+8 || got > promptTokens+60 {
		t.Errorf("charged %d, want the prompt and about ten chunks", got)
	}
	w.settled()
	if got := w.Metrics().Sum("llmgw_requests_total", "outcome", "client_gone"); got != 1 {
		t.Errorf("got %v calls whose client left, want 1", got)
	}
}

func TestDrainReadsOnAndChargesWhatTheProviderSays(t *testing.T) {
	w := start(t, setup{limits: tokensLimit(), server: "on_client_gone: drain"})
	open(t, w.Gateway, ask("sim-in10-out50-every10ms", streamed)).Body.Close()
	if got := w.spent("tokens"); got != 60 {
		t.Errorf("charged %d, want the 60 that the provider reported", got)
	}
	w.settled()
}

func TestChargeEstimateChargesTheWholeReservation(t *testing.T) {
	w := start(t, setup{limits: tokensLimit(), server: "on_client_gone: charge_estimate"})
	open(t, w.Gateway, ask("sim-out400-every20ms", streamed, bound(500))).Body.Close()
	if got := w.spent("tokens"); got != 500 {
		t.Errorf("charged %d, want the 500 that were reserved", got)
	}
	w.settled()
}

func TestD6D20WhatFailedCostsNothingButAnInputThatIsWorkedOn(t *testing.T) {
	for _, s := range []struct {
		what, model string
		status      int
		charged     int
	}{
		{"an error of the provider", "sim-fail500", 500, 0},
		{"a refusal", "sim-fail400", 400, 0},
		{"a connection that is reset", "sim-drop", 502, 0},
		{"an error as the first event", "sim-err", 502, 0},          // which names no status
		{"no answer in time", "sim-wait30s", 504, 5 * promptTokens}, // the provider works on it
	} {
		t.Run(s.what, func(t *testing.T) {
			w := start(t, setup{limits: tokensLimit(), provider: "timeouts: {first_byte: 700ms}\nretries: {attempts: 0}"})
			body := ask(s.model, bound(500))
			if s.model == "sim-err" {
				body = ask(s.model, streamed, bound(500))
			}
			for range 5 {
				if a := w.Post(secret, chat, body); a.Status != s.status {
					t.Fatalf("got %d, want %d\n%s", a.Status, s.status, a.Body)
				}
			}
			if got := w.spent("tokens"); got != s.charged {
				t.Errorf("charged %d, want %d", got, s.charged)
			}
			w.settled()
		})
	}
	t.Run("a refused connection", func(t *testing.T) {
		w := start(t, setup{limits: tokensLimit()})
		w.provider.Close()
		if a := w.Post(secret, chat, ask("sim", bound(500))); a.Status != 502 || a.Code() != "upstream_error" {
			t.Errorf("got %d %q, want 502 upstream_error\n%s", a.Status, a.Code(), a.Body)
		}
		if got := w.spent("tokens"); got != 0 {
			t.Errorf("charged %d, want nothing", got)
		}
		w.settled()
	})
}

func TestD10TheCallIsSettledByWhatItUsed(t *testing.T) {
	w := start(t, setup{limits: tokensLimit()})
	if a := w.Post(secret, chat, ask("sim-in10-out5", `"max_tokens":4096`)); a.Status != 200 {
		t.Fatalf("got %d\n%s", a.Status, a.Body)
	}
	if got := w.spent("tokens"); got != 15 {
		t.Errorf("charged %d, want 15", got)
	}
	w.settled()
}

func TestD9ASecondAttemptIsNotReservedBesideTheFirst(t *testing.T) {
	t.Run("cancel", func(t *testing.T) { triedAgain(t, "") })
	t.Run("drain", func(t *testing.T) { triedAgain(t, "on_client_gone: drain") })
}

func triedAgain(t *testing.T, server string) {
	t.Helper()
	w := start(t, setup{limits: monthly("tokens", "tokens", 1000), server: server})
	body := ask("sim-in10-out200-every50ms", streamed, bound(800))
	first, err := w.Open(secret, chat, body, "Idempotency-Key", "one")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	second, err := w.Open(secret, chat, body, "Idempotency-Key", "one")
	if err != nil {
		t.Fatal(err)
	}
	second.Body.Close()
	if second.StatusCode != http.StatusOK {
		t.Errorf("the second attempt: got %d, want 200 once the first had settled", second.StatusCode)
	}
	if _, err := io.Copy(io.Discard, first.Body); err == nil {
		t.Error("the first attempt ended cleanly though the second took its place")
	}
	w.settled()
}

func TestARetryThatIsCountedIsNotReservedBesideTheFirst(t *testing.T) {
	t.Run("in memory", func(t *testing.T) { retriedByCount(t, setup{}) })
	t.Run("in a Redis that is new", func(t *testing.T) { retriedByCount(t, setup{redis: true}) })
}

func retriedByCount(t *testing.T, set setup) {
	t.Helper()
	set.limits = monthly("tokens", "tokens", 1000)
	w := start(t, set)
	body, count := ask("sim-in10-out5-wait5s", bound(800)), "X-Stainless-Retry-Count"
	first := make(chan error, 1)
	go func() {
		_, err := w.Try(secret, chat, body, count, "0")
		first <- err
	}()
	w.Eventually("sent", eventually, func() bool { return w.provider.Stats().InFlight == 1 })
	if a := w.Post(secret, chat, body, count, "0"); a.Status != http.StatusTooManyRequests {
		t.Errorf("an equal call of its own: got %d, want to be refused beside the first", a.Status)
	}
	if a := w.Post(secret, chat, body, count, "1"); a.Status != http.StatusTooManyRequests {
		t.Errorf("the retry of the refused call: got %d, want to be refused again", a.Status)
	}
	second := make(chan error, 1)
	go func() {
		a, err := w.Try(secret, chat, body, count, "1") // the refused one has had its retry
		if err == nil && a.Status != http.StatusOK {
			t.Errorf("the retry of the first: got %d, want 200 once that had settled", a.Status)
		}
		second <- err
	}()
	if err := <-first; err == nil {
		t.Error("the first attempt ended cleanly though a retry took its place")
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
	w.settled()
}

func TestD13AKilledGatewaysReservationsComeBack(t *testing.T) {
	w := start(t, setup{
		gateways: 2, redis: true, limits: tokensLimit() + "\n{name: slots, unit: concurrency, amount: 40}",
		store: "reclaim_after: 3s",
	})
	killed, survivor := w.all[0], w.all[1]
	w.all, w.Gateway = w.all[1:], survivor
	for range 20 {
		open(t, killed, ask("sim-out10000-every20ms", streamed, bound(1000)))
	}
	kept := open(t, survivor, ask("sim-out10000-every20ms", streamed, bound(1000)))
	defer kept.Body.Close()
	if got := w.Limit("search", "slots").Remaining; got != 19 {
		t.Fatalf("got %v slots free with 21 of 40 taken", got)
	}
	killed.Kill()
	began := time.Now()
	w.Eventually("the slots of the dead come back", 20*time.Second, func() bool { return w.Limit("search", "slots").Remaining == 39 })
	t.Logf("the slots came back after %v", time.Since(began))
	if got := w.Limit("search", "tokens").Open; got > 1000 {
		t.Errorf("got %v tokens still open, want those of the surviving stream at most", got)
	}
	kept.Body.Close()
	w.settled()
}

func TestAKilledGatewayGivesBackByItsOwnRestart(t *testing.T) {
	w := start(t, setup{redis: true, limits: "{name: slots, unit: concurrency, amount: 20}", store: "reclaim_after: 2s"})
	for range 20 {
		open(t, w.Gateway, ask("sim-out10000-every20ms", streamed))
	}
	w.Kill()
	w.Restart()
	w.Eventually("the slots are free", 20*time.Second, func() bool { return w.Limit("search", "slots").Remaining == 20 })
	w.settled()
}

func TestD18ShutdownLetsStreamsEndAndSettles(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, limits: tokensLimit() + "\n{name: slots, unit: concurrency, amount: 40}"})
	stopping := w.all[0]
	w.all, w.Gateway = w.all[1:], w.all[1]
	var streams sync.WaitGroup
	for range 10 {
		resp := open(t, stopping, ask("sim-in10-out50-every20ms", streamed))
		streams.Go(func() {
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil || !strings.Contains(string(b), "[DONE]") {
				t.Errorf("a stream was cut by the shutdown: %v", err)
			}
		})
	}
	stopping.Signal(syscall.SIGTERM)
	stopping.Eventually("not ready", 5*time.Second, func() bool { return notReady(stopping) })
	streams.Wait()
	if code := stopping.Wait(); code != 0 {
		t.Errorf("got exit code %d, want 0\n%s", code, stopping.Log())
	}
	if got := w.spent("tokens"); got != 10*60 {
		t.Errorf("charged %d, want the 600 that ten streams used", got)
	}
	w.settled()
}

// notReady tells whether the gateway says that it takes no calls, or is gone.
func notReady(g *gatewaytest.Gateway) bool {
	resp, err := http.Get(g.AdminURL + "/readyz")
	if err != nil {
		return true
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusServiceUnavailable
}

func TestShutdownCutsWhatOutlivesItsGraceAndSaysSo(t *testing.T) {
	w := start(t, setup{server: "shutdown_grace: 300ms"})
	resp := open(t, w.Gateway, ask("sim-out10000-every20ms", streamed))
	defer resp.Body.Close()
	if code := w.Stop(); code != 1 {
		t.Errorf("got exit code %d, want 1", code)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("the stream that was cut ended cleanly")
	}
}
