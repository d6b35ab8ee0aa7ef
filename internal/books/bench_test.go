package books

import (
	"path/filepath"
	"testing"

	"llmgw/internal/database"
)

// BenchmarkRecord is what a record costs the request that it is of.
func BenchmarkRecord(b *testing.B) {
	books := start(b, Config{Database: openDatabase(b, database.Config{Kind: database.SQLite, Path: filepath.Join(b.TempDir(), "b.db")}), Spool: b.TempDir()})
	r := whole()
	for b.Loop() {
		books.Record(r)
	}
}

// BenchmarkPost is what a record costs on its way through the spool into a database.
func BenchmarkPost(b *testing.B) {
	for name, config := range map[string]func() database.Config{
		"sqlite": func() database.Config {
			return database.Config{Kind: database.SQLite, Path: filepath.Join(b.TempDir(), "b.db")}
		},
		"postgres": func() database.Config { return postgres(b) },
	} {
		b.Run(name, func(b *testing.B) {
			books := start(b, Config{Database: openDatabase(b, config()), Spool: b.TempDir()})
			r := whole()
			n := 0
			for b.Loop() {
				books.Record(r)
				if n++; n%batchItems == 0 {
					flush(b, books)
				}
			}
			flush(b, books)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
