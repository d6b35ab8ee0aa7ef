package gatewaytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// build makes the binary, once per process, in a directory that Main removes.
var build = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "llmgw").Output()
	if err != nil {
		return "", fmt.Errorf("gatewaytest: find the module: %w", err)
	}
	sweep()
	dir, err := os.MkdirTemp("", binaries+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "llmgw")
	args := []string{"build", "-o", binary}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/llmgw")...)
	cmd.Dir = strings.TrimSpace(string(root))
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir) //nolint:errcheck // a temporary directory
		return "", fmt.Errorf("gatewaytest: build llmgw: %w\n%s", err, out)
	}
	return binary, nil
})

// binaries is how the directories of built binaries are named; the process that
// built one follows.
const binaries = "llmgw-binary-"

// sweep removes what earlier tests left that were killed before they could.
func sweep() {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), binaries+"*-*"))
	if err != nil { // the pattern is right
		panic(err)
	}
	for _, dir := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), binaries), "-")
		if _, err := os.Stat("/proc/" + pid); os.IsNotExist(err) {
			os.RemoveAll(dir) //nolint:errcheck // another test may be at it too
		}
	}
}

// Binary is the path of the built gateway: what LLMGW_BINARY names, else one
// that is built now, with the race detector if the test has it.
func Binary(t testing.TB) string {
	t.Helper()
	binary, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func binary() (string, error) {
	if named := os.Getenv("LLMGW_BINARY"); named != "" && !raceEnabled {
		return named, nil
	}
	return build()
}

// Main builds the binary, runs the tests of a package and removes it. It is
// the whole of a TestMain: os.Exit(gatewaytest.Main(m)).
func Main(m *testing.M) int {
	built, err := binary()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if built != os.Getenv("LLMGW_BINARY") {
		defer os.RemoveAll(filepath.Dir(built)) //nolint:errcheck // a temporary directory
	}
	return m.Run()
}
