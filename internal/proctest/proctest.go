// Package proctest knows what state a process is in that a test has started. It
// reads /proc, and so is of Linux alone, as are the tests that pause processes.
package proctest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// AwaitStopped returns when no thread of a process that was sent SIGSTOP runs any
// more: the signal comes to each in its own time, and until then the process may
// answer. One that is gone is stopped. It is an error if that takes ten seconds.
func AwaitStopped(pid int) error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	patience := time.After(10 * time.Second)
	for running(pid) {
		select {
		case <-look.C:
		case <-patience:
			return fmt.Errorf("proctest: process %d was sent SIGSTOP and still runs", pid)
		}
	}
	return nil
}

// running tells whether some thread of a process is not stopped.
func running(pid int) bool {
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
	if err != nil {
		panic(fmt.Errorf("proctest: %w", err)) // the pattern is wrong
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended
		}
		// The state stands behind the name, which may hold anything.
		if state := stat[bytes.LastIndexByte(stat, ')')+1:]; len(state) > 1 && state[1] != 'T' && state[1] != 'Z' {
			return true
		}
	}
	return false
}
