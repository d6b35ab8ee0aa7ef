// Package gatewaytest runs the real llmgw binary for black-box tests: built
// once per test binary, started on free ports of 127.0.0.1 with a
// configuration of the test's own, and ended with the test. It also starts
// simulated providers in the test's process, and reads what the gateway says
// of itself.
//
// It is for tests only, and imports nothing of the gateway but the simulated
// provider: what it shows is what users see.
//
// gatewaytest.go is the process, binary.go builds it, provider.go starts
// providers, call.go speaks to the data plane, admin.go to the admin plane and
// metrics.go reads /metrics.
package gatewaytest

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"llmgw/internal/proctest"
)

// How long a process may take to be ready and to end, before the test fails.
const (
	startTimeout = 20 * time.Second
	stopTimeout  = 60 * time.Second
)

// Gateway is one llmgw process.
type Gateway struct {
	// URL is the data plane's, AdminURL the admin plane's; without a slash at
	// the end.
	URL, AdminURL string
	// Config is the path of the configuration file.
	Config string

	t     testing.TB
	args  []string
	cmd   *exec.Cmd
	log   *log
	ended chan struct{} // closed when the process has ended
}

// Start runs a gateway with a configuration in YAML, and returns when it is
// ready. The listen addresses are given on the command line and win over the
// file's. Unless the test stops it, it is killed when the test ends; its log is
// shown if the test failed.
func Start(t testing.TB, config string) *Gateway {
	t.Helper()
	g := Launch(t, config)
	g.AwaitReady()
	return g
}

// Launch is Start without waiting until the gateway is ready.
func Launch(t testing.TB, config string) *Gateway {
	t.Helper()
	g := &Gateway{t: t, Config: filepath.Join(t.TempDir(), "llmgw.yaml")}
	g.WriteConfig(config)
	g.move()
	g.run()
	t.Cleanup(func() {
		g.Kill()
		if t.Failed() {
			t.Logf("log of the gateway at %s:\n%s", g.URL, g.Log())
		}
	})
	return g
}

// move gives the gateway ports that were free a moment ago.
func (g *Gateway) move() {
	g.t.Helper()
	listen, admin := freeAddress(g.t), freeAddress(g.t)
	g.URL, g.AdminURL = "http://"+listen, "http://"+admin
	g.args = []string{"serve", "--config", g.Config, "--listen", listen, "--admin-listen", admin}
}

// run starts the process.
func (g *Gateway) run() {
	g.t.Helper()
	g.log = &log{}
	g.cmd = exec.Command(Binary(g.t), g.args...)
	g.cmd.Stderr = g.log
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // if this test dies
	if err := g.cmd.Start(); err != nil {
		g.t.Fatalf("gatewaytest: start: %v", err)
	}
	g.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		_ = cmd.Wait() // the exit code tells
	}(g.cmd, g.ended)
}

// Restart starts a gateway that has ended again, on the same ports, and
// returns when it is ready.
func (g *Gateway) Restart() {
	g.t.Helper()
	if g.running() {
		g.t.Fatal("gatewaytest: restart: the gateway is running")
	}
	g.run()
	g.AwaitReady()
}

// AwaitReady returns when /readyz answers 200. The test fails if that takes
// too long or the process ends.
func (g *Gateway) AwaitReady() {
	g.t.Helper()
	moves := 0 // another process may have taken a port meanwhile
	g.Eventually("ready", startTimeout, func() bool {
		if !g.running() && moves < 3 && strings.Contains(g.Log(), "address already in use") {
			moves++
			g.move()
			g.run()
		}
		if !g.running() {
			g.t.Fatalf("gatewaytest: the gateway ended with %d:\n%s", g.cmd.ProcessState.ExitCode(), g.Log())
		}
		resp, err := http.Get(g.AdminURL + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close() // only the status counts
		return resp.StatusCode == http.StatusOK
	})
}

// Eventually fails the test unless ok becomes true within that time, or within
// patience if that is longer. It is for what another process does in its own time.
func (g *Gateway) Eventually(what string, within time.Duration, ok func() bool) {
	g.t.Helper()
	Eventually(g.t, what, within, ok)
}

// patience is the least that a test waits before it takes a busy machine for a
// gateway that hangs.
const patience = 30 * time.Second

// Eventually fails t unless ok becomes true within that time, or within patience
// if that is longer.
func Eventually(t testing.TB, what string, within time.Duration, ok func() bool) {
	t.Helper()
	within = max(within, patience)
	deadline := time.Now().Add(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not %s within %v", what, within)
		}
		<-tick.C
	}
}

// Stop sends SIGTERM and returns the exit code. The test fails if the gateway
// does not end.
func (g *Gateway) Stop() int {
	g.t.Helper()
	g.Signal(syscall.SIGTERM)
	return g.Wait()
}

// Wait returns the exit code when the process has ended by itself or by a
// signal; -1 if a signal killed it.
func (g *Gateway) Wait() int {
	g.t.Helper()
	select {
	case <-g.ended:
	case <-time.After(stopTimeout):
		g.t.Fatalf("gatewaytest: the gateway did not end within %v", stopTimeout)
	}
	return g.cmd.ProcessState.ExitCode()
}

// Kill ends the process with SIGKILL and returns when it is gone. It does
// nothing to one that has ended.
func (g *Gateway) Kill() {
	_ = g.cmd.Process.Kill() // it may have ended
	<-g.ended
}

// Pause stops the process with SIGSTOP: its connections stay and get no
// answer.
func (g *Gateway) Pause() {
	g.t.Helper()
	g.Signal(syscall.SIGSTOP)
	if err := proctest.AwaitStopped(g.cmd.Process.Pid); err != nil {
		g.t.Fatal(err)
	}
}

// Resume lets a paused process go on.
func (g *Gateway) Resume() { g.t.Helper(); g.Signal(syscall.SIGCONT) }

// Signal sends a signal.
func (g *Gateway) Signal(s os.Signal) {
	g.t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		g.t.Fatalf("gatewaytest: %v: %v", s, err)
	}
}

// WriteConfig replaces the configuration file in one step, as editors do. The
// gateway sees that by itself, sooner with a SIGHUP.
func (g *Gateway) WriteConfig(config string) {
	g.t.Helper()
	next := g.Config + ".next"
	if err := os.WriteFile(next, []byte(config), 0o600); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Rename(next, g.Config); err != nil {
		g.t.Fatal(err)
	}
}

// PID is the process's id.
func (g *Gateway) PID() int { return g.cmd.Process.Pid }

// Log is what the gateway has written to stderr since it was last started.
func (g *Gateway) Log() string { return g.log.String() }

func (g *Gateway) running() bool {
	select {
	case <-g.ended:
		return false
	default:
		return true
	}
}

// log gathers a process's output.
type log struct {
	mu   sync.Mutex
	text []byte
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// The ports that gateways get: below those that the kernel gives to outgoing
// connections, of which tests make many.
const firstPort, lastPort = 15_000, 31_999

// freeAddress is an address of 127.0.0.1 that nobody listens on now.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue // taken
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return l.Addr().String()
	}
	t.Fatal("gatewaytest: no free port")
	return ""
}
