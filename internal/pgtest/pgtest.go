// Package pgtest runs real PostgreSQL servers for tests: on a free port of
// 127.0.0.1, in a directory of their own, ended with the test that started them.
// Where the tests run as root the server runs as an unprivileged user, since
// PostgreSQL refuses root.
//
// It is for tests only, and knows no table.
package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // asks whether the server is ready

	"llmgw/internal/testenv"
)

// startTimeout is how long a server may take to accept connections.
const startTimeout = 60 * time.Second

// Server is a running PostgreSQL.
type Server struct {
	Port int

	dir, bin string
	as       *syscall.Credential // nil: as the test runs

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
}

// Start runs a server until t ends. Without PostgreSQL the test fails; with unit
// tests alone it is skipped.
func Start(t testing.TB) *Server {
	t.Helper()
	if testenv.Unit() {
		t.Skip("needs PostgreSQL: make test runs this")
	}
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// New runs a server for a TestMain; its caller closes it.
func New() (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	s := &Server{dir: dir, bin: bin}
	err = s.init()
	for tries := 0; err == nil && tries < 5; tries++ { // another process may take the port
		if s.Port, err = freePort(); err != nil {
			break
		}
		if err = s.run(); err == nil {
			return s, nil
		}
	}
	_ = os.RemoveAll(dir)
	return nil, err
}

// binaries is where Debian puts the newest PostgreSQL's programs.
func binaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // the pattern is right
	if len(found) > 0 {
		return filepath.Dir(slices.Max(found)), nil
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", errors.New("pgtest: no PostgreSQL: make deps brings it")
	}
	return filepath.Dir(path), nil
}

// init makes the data directory, of a user who may run the server.
func (s *Server) init() error {
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			u, err = user.Lookup("nobody")
		}
		if err != nil {
			return fmt.Errorf("pgtest: no user to run PostgreSQL as: %w", err)
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32) // the system's own
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(s.dir, int(uid), int(gid)); err != nil {
			return fmt.Errorf("pgtest: %w", err)
		}
	}
	cmd := s.command("initdb", "--pgdata", s.dir, "--username", "llmgw", "--auth", "trust", "--no-sync", "--encoding", "UTF8", "--locale", "C")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgtest: initdb: %w\n%s", err, out)
	}
	return nil
}

func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, program), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Credential: s.as}
	return cmd
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("pgtest: %w", err)
	}
	defer func() { _ = l.Close() }() // nobody listened
	return l.Addr().(*net.TCPAddr).Port, nil
}

// run starts the process and returns when it answers.
func (s *Server) run() error {
	log := filepath.Join(s.dir, "server.log")
	out, err := os.Create(log)
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	defer func() { _ = out.Close() }() // the process has its own
	cmd := s.command("postgres", "-D", s.dir, "-p", strconv.Itoa(s.Port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "max_connections=60", "-c", "shared_buffers=64MB")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the log tells why
		close(done)
	}()
	s.mu.Lock()
	s.cmd, s.done = cmd, done
	s.mu.Unlock()
	deadline := time.After(startTimeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			text, _ := os.ReadFile(log) // what there is
			return fmt.Errorf("pgtest: PostgreSQL ended at its start:\n%s", text)
		case <-deadline:
			s.Kill()
			return fmt.Errorf("pgtest: PostgreSQL was not ready within %v", startTimeout)
		case <-tick.C:
			if s.exec("SELECT 1") == nil {
				return nil
			}
		}
	}
}

// exec runs a statement in the database that every server has.
func (s *Server) exec(statement string) error {
	db, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // nothing is kept
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	_, err = db.ExecContext(ctx, statement)
	return err
}

func (s *Server) url(name string) string {
	return fmt.Sprintf("postgres://llmgw@127.0.0.1:%d/%s?sslmode=disable", s.Port, name)
}

// Database makes an empty database and returns its URL.
func (s *Server) Database(t testing.TB, name string) string {
	t.Helper()
	if err := s.exec("CREATE DATABASE " + name); err != nil {
		t.Fatalf("pgtest: create the database %s: %v", name, err)
	}
	return s.url(name)
}

// Kill ends the server at once; Restart starts it again with its data.
func (s *Server) Kill() {
	s.mu.Lock()
	cmd, done := s.cmd, s.done
	s.mu.Unlock()
	_ = cmd.Process.Signal(syscall.SIGQUIT) // it may have ended: an immediate shutdown, all its children included
	<-done
}

// Restart starts a killed server again on the same port, with what it had committed.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// Close ends the server and removes its directory.
func (s *Server) Close() {
	s.Kill()
	_ = os.RemoveAll(s.dir) // a temporary directory
}
