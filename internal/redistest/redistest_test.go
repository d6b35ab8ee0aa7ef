package redistest_test

import (
	"strings"
	"testing"

	"llmgw/internal/redistest"
)

func TestAServerAnswersAndCanBeKilledAndRestartedEmpty(t *testing.T) {
	s := redistest.Start(t)
	if got := s.Command(t, "ping"); got != "PONG" {
		t.Fatalf("ping: got %q, want PONG", got)
	}
	s.Command(t, "set", "k", "v")
	pid := s.Pid

	s.Kill()
	s.Restart(t)

	if got := s.Command(t, "get", "k"); got != "" {
		t.Errorf("after the restart k is %q, want nothing", got)
	}
	if s.Pid == pid {
		t.Error("the restarted server has the pid of the killed one")
	}
}

func TestAPausedServerAnswersAfterItIsResumed(t *testing.T) {
	s := redistest.Start(t)
	s.Pause()
	s.Resume()
	if got := s.Command(t, "ping"); got != "PONG" {
		t.Errorf("ping: got %q, want PONG", got)
	}
}

func TestAPausedServerCanBeClosed(t *testing.T) {
	s := redistest.Start(t)
	s.Pause()
	s.Close()
	s.Kill() // a second end does nothing
}

func TestArgumentsReachTheServer(t *testing.T) {
	s := redistest.Start(t, "--maxmemory", "10mb")
	if got := s.Command(t, "config", "get", "maxmemory"); !strings.Contains(got, "10485760") {
		t.Errorf("maxmemory: got %q, want 10485760", got)
	}
}

func TestAWrongArgumentTellsWhatTheServerSaid(t *testing.T) {
	s, err := redistest.New("--no-such-option", "1")
	if err == nil {
		s.Close()
		t.Fatal("the server started, want an error")
	}
	if !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("the error does not name the option: %v", err)
	}
}

func TestAClusterServesEverySlot(t *testing.T) {
	servers := redistest.StartCluster(t, 3, 0)
	if got := servers[0].Command(t, "cluster", "info"); !strings.Contains(got, "cluster_slots_ok:16384") {
		t.Errorf("cluster info: got %s, want cluster_slots_ok:16384", got)
	}
}

func TestASentinelKnowsItsMaster(t *testing.T) {
	master := redistest.Start(t)
	replica := redistest.Start(t)
	replica.Replicate(t, master)
	sentinel := redistest.StartSentinel(t, "main", master)
	if got := sentinel.Command(t, "sentinel", "get-master-addr-by-name", "main"); !strings.Contains(got, "127.0.0.1") {
		t.Errorf("the master's address: got %q, want 127.0.0.1", got)
	}
}
