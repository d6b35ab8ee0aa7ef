// Package testenv says what a test has beside Go: programs, and files outside the
// repository. `make unit` has neither, `make test` has both; with plain `go test`
// a program that is missing fails the test that needs it.
package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Unit reports whether only tests run that need nothing but Go: LLMGW_UNIT is set.
func Unit() bool { return os.Getenv("LLMGW_UNIT") != "" }

// Program returns the path of a program that t needs. It skips t where Unit is
// true, and fails t where there is no such program.
func Program(t testing.TB, name string) string {
	t.Helper()
	if Unit() {
		t.Skipf("needs %s: make test runs this", name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("no %s in PATH: make deps brings it", name)
	}
	return path
}

// Shared returns where a file or directory is in the directory that LLMGW_SHARED
// names, which holds recordings that are not part of the repository. ok is false
// if the variable is empty or there is no such file.
func Shared(name string) (path string, ok bool) {
	dir := os.Getenv("LLMGW_SHARED")
	if dir == "" {
		return "", false
	}
	path = filepath.Join(dir, name)
	_, err := os.Stat(path)
	return path, err == nil
}
