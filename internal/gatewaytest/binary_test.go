package gatewaytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

func TestWhatKilledTestsLeftIsSwept(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(os.TempDir(), binaries+strconv.Itoa(ended.Process.Pid)+"-1")
	ours := filepath.Join(os.TempDir(), binaries+strconv.Itoa(os.Getpid())+"-1")
	other := filepath.Join(os.TempDir(), "something-else-1")
	for _, dir := range []string{left, ours, other} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	for _, s := range []struct {
		dir  string
		kept bool
	}{{left, false}, {ours, true}, {other, true}} {
		if _, err := os.Stat(s.dir); (err == nil) != s.kept {
			t.Errorf("%s: %v, kept should be %v", s.dir, err, s.kept)
		}
	}
}
