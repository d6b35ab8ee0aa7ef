package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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
	c, err := Load(path, func(name string) (string, bool) { return "localhost", name == "HOST" })
	if err != nil {
		t.Fatal(err)
	}
	if c.Server.AdminToken != "hush" || c.Server.Listen != "localhost:80" {
		t.Errorf("got %+v", c.Server)
	}
	want := []File{Stat(path), Stat(filepath.Join(dir, "secrets", "token"))}
	if !slices.Equal(c.Files, want) || want[0].Changed.IsZero() {
		t.Errorf("got the files %+v, want %+v", c.Files, want)
	}
	if got, want := c.Version, want[0].Changed.UnixMilli(); got != want || c.Limits[0].Version != want {
		t.Errorf("got the version %d, of a limit %d, want %d", got, c.Limits[0].Version, want)
	}
}

func TestWhatTakesAConfigurationsPlaceIsNewerHoweverOldTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "llmgw.yaml")
	write(t, path, "limits: [{name: l, unit: tokens, amount: 1, per: minute}]\n")
	before := time.Now().Add(time.Hour).UnixMilli()
	c, _, err := LoadAfter(path, os.LookupEnv, before)
	if err != nil {
		t.Fatal(err)
	}
	if c.Version <= before || c.Limits[0].Version <= before {
		t.Errorf("got the version %d, of a limit %d, want more than %d", c.Version, c.Limits[0].Version, before)
	}
}

func TestAFileThatIsPutBackIsAnotherOne(t *testing.T) {
	dir := t.TempDir()
	path, kept := filepath.Join(dir, "llmgw.yaml"), filepath.Join(dir, "llmgw.yaml.bak")
	write(t, path, "server: {}\n")
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
	first := Stat(path)
	if err := os.Rename(path, kept); err != nil {
		t.Fatal(err)
	}
	if got := Stat(path); got != (File{Path: path}) {
		t.Errorf("without a file: got %+v", got)
	}
	if err := os.Rename(kept, path); err != nil {
		t.Fatal(err)
	}
	if got := Stat(path); runtime.GOOS == "linux" && !got.Changed.After(first.Changed) {
		t.Errorf("put back: got %v, want after %v", got.Changed, first.Changed)
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
	if err == nil || !strings.Contains(err.Error(), ":1:1: the file has more than 16777216 bytes") {
		t.Errorf("got %v", err)
	}
}
