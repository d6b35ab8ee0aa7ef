package proctest

import (
	"os/exec"
	"syscall"
	"testing"
)

func TestAProcessRunsUntilAllOfItIsStopped(t *testing.T) {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pid := c.Process.Pid
	if !running(pid) {
		t.Error("it does not run")
	}
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := AwaitStopped(pid); err != nil || running(pid) {
		t.Errorf("it runs although it was stopped: %v", err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	if err := AwaitStopped(pid); err != nil {
		t.Errorf("gone: %v", err)
	}
}
