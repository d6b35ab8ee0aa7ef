package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAFileIsLoadedWithWhatItNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "llmgw.yaml")
	write(t, path, `
server: {admin_token: "${file:secrets/token}", listen: "${HOST}:80"}
limits: [{name: l, unit: tokens, amount: 1, per: minute}]
`)
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "secrets", "token"), "hush\n")
	changed := time.UnixMilli(1_790_000_000_123)
	if err := os.Chtimes(path, changed, changed); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path, func(name string) (string, bool) { return "localhost", name == "HOST" })
	if err != nil {
		t.Fatal(err)
	}
	if c.Server.AdminToken != "hush" || c.Server.Listen != "localhost:80" {
		t.Errorf("got %+v", c.Server)
	}
	if got, want := c.Version, changed.UnixMilli(); got != want || c.Limits[0].Version != want {
		t.Errorf("got the version %d, of a limit %d, want %d", got, c.Limits[0].Version, want)
	}
}

func TestErrorsOfAFileNameItAsItWasNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "llmgw.yaml")
	write(t, path, "server:\n  listen: ${file:gone}\n  admin_listen: ${NOPE}\n")
	_, err := Load(path, func(string) (string, bool) { return "", false })
	if _, ok := errors.AsType[Errors](err); !ok {
		t.Fatalf("got %T: %v, want Errors", err, err)
	}
	want := path + ":2:11: ${file:gone}: no such file or directory\n" + path + ":3:17: the environment variable NOPE is not set"
	if got := err.Error(); !strings.HasPrefix(got, want) {
		t.Errorf("got %s\nwant %s…", got, want)
	}
}

func TestAFileThatCannotBeReadIsAnOrdinaryError(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "gone.yaml"), os.LookupEnv)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that it does not exist", err)
	}
	if _, err := Load(t.TempDir(), os.LookupEnv); err == nil {
		t.Error("got no error for a directory")
	}
}

func TestAFileTooLargeIsNotReadWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "llmgw.yaml")
	write(t, path, strings.Repeat("# large\n", maxFileBytes/4))
	_, err := Load(path, os.LookupEnv)
	if err == nil || !strings.Contains(err.Error(), ":1:1: the file has more than 1048576 bytes") {
		t.Errorf("got %v", err)
	}
}
