package bpe

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

var names = []string{"o200k_base", "cl100k_base", "p50k_base", "r50k_base"}

// fewer is all of names; the first and the last in a short run, and only the first
// where the race detector makes everything ten times slower, and what is tested
// has no goroutines.
func fewer(names []string) []string {
	switch {
	case raceEnabled:
		return names[:1]
	case testing.Short():
		return []string{names[0], names[len(names)-1]}
	}
	return names
}

// shorter is n, or a fifth of it in a short run.
func shorter(n int) int {
	if testing.Short() {
		return max(1, n/5)
	}
	return n
}

// vector is a text with what the official implementation makes of it.
type vector struct {
	ID     string   `json:"id"`
	Text   *string  `json:"text"`
	Gen    *recipe  `json:"gen"`
	Bytes  int      `json:"bytes"`
	O200K  *outcome `json:"o200k_base"`
	CL100K *outcome `json:"cl100k_base"`
	P50K   *outcome `json:"p50k_base"`
	R50K   *outcome `json:"r50k_base"`
}

type outcome struct {
	N      int      `json:"n"`
	SHA256 string   `json:"sha256"`
	IDs    []uint32 `json:"ids"`
}

// recipe makes a text too long to be written out.
type recipe struct {
	Repeat string   `json:"repeat"`
	Times  int      `json:"times"`
	Concat []recipe `json:"concat"`
	Text   string   `json:"text"`
	LCG    *struct {
		Seed     uint64 `json:"seed"`
		Alphabet string `json:"alphabet"`
		Length   int    `json:"length"`
	} `json:"lcg"`
}

func (r recipe) make() string {
	switch {
	case r.LCG != nil:
		alphabet := []rune(r.LCG.Alphabet)
		var out strings.Builder
		for x, n := r.LCG.Seed, r.LCG.Length; n > 0; n-- {
			x = (x*1103515245 + 12345) % (1 << 31)
			out.WriteRune(alphabet[(x>>16)%uint64(len(alphabet))])
		}
		return out.String()
	case len(r.Concat) > 0:
		var out strings.Builder
		for _, part := range r.Concat {
			out.WriteString(part.make())
		}
		return out.String()
	case r.Times > 0:
		return strings.Repeat(r.Repeat, r.Times)
	}
	return r.Text
}

func (v vector) text() []byte {
	if v.Gen != nil {
		return []byte(v.Gen.make())
	}
	return []byte(*v.Text)
}

func (v vector) outcomes() map[string]*outcome {
	return map[string]*outcome{"o200k_base": v.O200K, "cl100k_base": v.CL100K, "p50k_base": v.P50K, "r50k_base": v.R50K}
}

func readVectors(t testing.TB, name string) []vector {
	t.Helper()
	return readLines[vector](t, name)
}

// readLines reads a packed file of JSON values.
func readLines[T any](t testing.TB, name string) []T {
	t.Helper()
	packed, err := os.ReadFile("testdata/" + name + ".jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for d := json.NewDecoder(z); d.More(); {
		var v T
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func get(t testing.TB, name string) *Encoding {
	t.Helper()
	e, err := Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func hash(ids []uint32) string {
	h := sha256.New()
	for _, id := range ids {
		h.Write(binary.LittleEndian.AppendUint32(nil, id))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func TestEveryVectorHasTheOfficialTokens(t *testing.T) {
	for _, file := range []string{"tiktoken_vectors", "tiktoken_fuzz"} {
		vectors := readVectors(t, file)
		if len(vectors) < 480 {
			t.Fatalf("%s: %d vectors", file, len(vectors))
		}
		if raceEnabled || testing.Short() {
			vectors = vectors[:200]
		}
		for _, v := range vectors {
			text := v.text()
			if v.Bytes != 0 && len(text) != v.Bytes {
				t.Fatalf("%s: the text has %d bytes, want %d", v.ID, len(text), v.Bytes)
			}
			for name, want := range v.outcomes() {
				if want == nil {
					continue
				}
				e := get(t, name)
				ids := e.Append(nil, text)
				if hash(ids) != want.SHA256 {
					t.Errorf("%s %s: %d tokens %v, want %d %v", v.ID, name, len(ids), head(ids), want.N, want.IDs)
				}
				if got := e.Count(text); got != want.N {
					t.Errorf("%s %s: counted %d, want %d", v.ID, name, got, want.N)
				}
			}
		}
	}
}

func head(ids []uint32) []uint32 { return slices.Clone(ids[:min(12, len(ids))]) }

// tokensOf returns the vocabulary of an encoding.
func tokensOf(t testing.TB, name string) [][]byte {
	t.Helper()
	tokens, err := origins[name].read(name)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}
