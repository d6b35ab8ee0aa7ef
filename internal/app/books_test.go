package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"llmgw/internal/config"
	"llmgw/internal/database"
)

// Where the file says nothing of records, a directory that nobody can write to is
// no reason not to start; a place that the file names is.
func TestTheDefaultPlaceOfTheBooksMayBeUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "no-directory")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, chosen := range []bool{false, true} {
		a := &App{log: slog.New(slog.DiscardHandler)}
		c := &config.Config{Records: config.Records{Kind: "sqlite", Chosen: chosen, Path: filepath.Join(file, "llmgw.db")}}
		err := a.makeDatabase(t.Context(), c)
		if chosen != (err != nil) {
			t.Errorf("chosen %v: got %v", chosen, err)
		}
		if err == nil && a.database.Kind() != database.Memory {
			t.Errorf("the books are of kind %s", a.database.Kind())
		}
		if err := a.close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
