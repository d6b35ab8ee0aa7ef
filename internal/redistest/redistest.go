// Package redistest runs real redis-server processes for tests: on a free port
// of 127.0.0.1, in a directory of their own, without persistence, ended with
// the test that started them.
//
// It is for tests only, and knows nothing of what is stored. redistest.go is
// one server, cluster.go a cluster and a sentinel of them.
package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"llmgw/internal/proctest"
	"llmgw/internal/testenv"
)

// startTimeout is how long a server may take to accept connections.
const startTimeout = 20 * time.Second

// Server is a running redis-server.
type Server struct {
	Addr string // host:port on 127.0.0.1
	Port int
	Pid  int

	dir  string
	args []string // besides those that every server gets

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// Start runs a redis-server until t ends. args are added to its command line,
// such as "--maxmemory", "10mb". Without a redis-server binary the test
// fails; with unit tests alone it is skipped.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	testenv.Program(t, "redis-server")
	s, err := New(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// New runs a redis-server for a TestMain; its caller closes it.
func New(args ...string) (*Server, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, errors.New("redistest: no redis-server in PATH: install Debian's package redis-server")
	}
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	s := &Server{dir: dir, args: args}
	// Another process may take the free port before the server does.
	for range 5 {
		if s.Port, err = freePort(); err != nil {
			break
		}
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port))
		if err = s.run(); err == nil {
			return s, nil
		}
	}
	os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	return nil, err
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("redistest: %w", err)
	}
	defer l.Close() //nolint:errcheck // nobody listened
	return l.Addr().(*net.TCPAddr).Port, nil
}

// run starts the process and returns when it accepts connections.
func (s *Server) run() error {
	args := append([]string{"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--loglevel", "notice", "--logfile", ""}, s.args...)
	cmd := exec.Command("redis-server", s.withMode(args)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	cmd.Stderr = cmd.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("redistest: start redis-server: %w", err)
	}

	ready := make(chan bool, 1)
	done := make(chan struct{})
	var tail []string
	go func() {
		defer close(done)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if len(tail) < 50 {
				tail = append(tail, lines.Text())
			}
			if strings.Contains(lines.Text(), "eady to accept connections") || strings.Contains(lines.Text(), "Sentinel ID is") {
				select {
				case ready <- true:
				default:
				}
			}
		}
		cmd.Wait() //nolint:errcheck // it was killed, or tells why in its log
	}()
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-ready:
	case <-done:
		return fmt.Errorf("redistest: redis-server ended at its start:\n%s", strings.Join(tail, "\n"))
	case <-timeout.C:
		cmd.Process.Kill() //nolint:errcheck // it may have ended by now
		<-done
		return fmt.Errorf("redistest: redis-server was not ready within %v", startTimeout)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd, s.done, s.Pid = cmd, done, cmd.Process.Pid
	return nil
}

// withMode puts a sentinel's configuration file first, where it belongs.
func (s *Server) withMode(args []string) []string {
	if len(s.args) == 0 || s.args[0] != sentinelMode {
		return args
	}
	return []string{s.args[1], "--sentinel", "--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.dir, "--logfile", ""}
}

// Pause stops the process with SIGSTOP: connections stay and get no answer.
func (s *Server) Pause() {
	s.signal(syscall.SIGSTOP)
	_ = proctest.AwaitStopped(s.Pid) // the test sees an answer
}

// Resume lets a paused process go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// Kill ends the process with SIGKILL and returns when it is gone. Its data are lost.
func (s *Server) Kill() {
	s.signal(syscall.SIGKILL)
	<-s.ended()
}

// Restart starts a killed server again, empty, on the same port.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// Close ends the server, paused or not, and removes its directory.
func (s *Server) Close() {
	s.Kill()
	os.RemoveAll(s.dir) //nolint:errcheck // a temporary directory
}

func (s *Server) ended() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

func (s *Server) signal(sig syscall.Signal) {
	select {
	case <-s.ended():
		return // the pid may be another's by now
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd.Process.Signal(sig) //nolint:errcheck // it may have ended by now
}
