package redistest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sentinelMode as a server's first argument makes it a sentinel; the second is
// its configuration file.
const sentinelMode = "sentinel"

// StartCluster runs a Redis Cluster until t ends, with all slots served:
// masters servers, each with as many replicas as asked for.
func StartCluster(t testing.TB, masters, replicas int) []*Server {
	t.Helper()
	var servers []*Server
	args := []string{"--cluster", "create"}
	for range masters * (1 + replicas) {
		s := Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0")
		servers = append(servers, s)
		args = append(args, s.Addr)
	}
	args = append(args, "--cluster-replicas", strconv.Itoa(replicas), "--cluster-yes")
	if out, err := exec.Command("redis-cli", args...).CombinedOutput(); err != nil {
		t.Fatalf("redistest: create the cluster: %v\n%s", err, out)
	}
	for _, s := range servers {
		s.Await(t, "cluster_state:ok", "cluster", "info")
	}
	// A replica that never had its master's data does not take its place, or takes
	// it empty. Which servers are replicas is settled a while after the rest.
	for _, s := range servers[masters:] {
		s.Await(t, "master_link_status:up", "info", "replication")
	}
	return servers
}

// StartSentinel runs a sentinel that watches master under name until t ends.
func StartSentinel(t testing.TB, name string, master *Server) *Server {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1\nsentinel down-after-milliseconds %s 500\nsentinel failover-timeout %s 2000\n",
		name, master.Port, name, name)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Start(t, sentinelMode, conf)
}

// Replicate makes s a replica of master and returns when they are in step.
func (s *Server) Replicate(t testing.TB, master *Server) {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Addr) // we made it
	s.Command(t, "replicaof", host, port)
	s.Await(t, "master_link_status:up", "info", "replication")
}

// Command runs one command with redis-cli and returns what it printed.
func (s *Server) Command(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("redis-cli", append([]string{"-p", strconv.Itoa(s.Port)}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("redistest: redis-cli %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Await repeats a command until what it prints contains want: for what another
// process does in its own time.
func (s *Server) Await(t testing.TB, want string, args ...string) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		got := s.Command(t, args...)
		if strings.Contains(got, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("redistest: redis-cli %s: %q is not in\n%s", strings.Join(args, " "), want, got)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
