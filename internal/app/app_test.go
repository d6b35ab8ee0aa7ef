package app

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAPortInUseIsToldAndLeavesNothing(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // it is nobody's
	}))
	defer collector.Close()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "llmgw.yaml")
	config := "server: {listen: " + taken.Addr().String() + ", admin_listen: 127.0.0.1:0}\ntelemetry: {otlp_endpoint: " + collector.URL + "}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = New(t.Context(), Options{ConfigFile: file, Stdout: io.Discard, Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v, want the address in use", err)
	}
}

func TestACollectorThatIsAwayIsNoProblemOfTheGateways(t *testing.T) {
	collector := httptest.NewServer(http.NotFoundHandler())
	collector.Close() // its address answers nothing now
	file := filepath.Join(t.TempDir(), "llmgw.yaml")
	config := "server: {listen: 127.0.0.1:0, admin_listen: 127.0.0.1:0}\ntelemetry: {otlp_endpoint: " + collector.URL + "}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	a, err := New(t.Context(), Options{ConfigFile: file, Stdout: io.Discard, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := a.Run(stopped); err != nil {
		t.Errorf("got %v, want nothing but a line in the log", err)
	}
	if !strings.Contains(log.String(), "were not exported") {
		t.Errorf("the log does not say so:\n%s", log.String())
	}
}
