package watch

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// anyValue makes a JSON value, with names and texts that look like usage.
func anyValue(r *rand.Rand, depth int) any {
	texts := []string{"usage", `"usage":{`, `\`, `\"`, "}", "{", "x", "", "usage\"", "é"}
	switch n := r.IntN(7); {
	case n < 2 && depth > 0:
		object := map[string]any{}
		for range r.IntN(4) {
			object[texts[r.IntN(len(texts))]] = anyValue(r, depth-1)
		}
		return object
	case n < 3 && depth > 0:
		list := []any{}
		for range r.IntN(3) {
			list = append(list, anyValue(r, depth-1))
		}
		return list
	case n < 5:
		return texts[r.IntN(len(texts))]
	case n < 6:
		return float64(r.IntN(100))
	}
	return nil
}

func TestBlankingLeavesEverythingButTheChunksOwnUsage(t *testing.T) {
	blanked := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		document := map[string]any{"usage": anyValue(r, 3), "a": anyValue(r, 3), "z": anyValue(r, 3)}
		text, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(2) == 0 {
			text = []byte(strings.NewReplacer(":", " : ", ",", " , ").Replace(string(text))) // also within texts, which stay texts
		}
		if json.Unmarshal(text, &document) != nil {
			t.Fatalf("seed %d: %s", seed, text)
		}
		var b blanker
		var out []byte
		for rest := text; len(rest) > 0; {
			piece := rest[:min(len(rest), 1+r.IntN(9))]
			rest = rest[len(piece):]
			from := 0
			b.read(piece, func(start, end int, begins bool) {
				out = append(out, piece[from:start]...)
				if from = end; begins {
					out = append(out, "null"...)
				}
			})
			out = append(out, piece[from:]...)
		}
		if _, ok := document["usage"].(map[string]any); ok {
			document["usage"] = nil
			blanked++
		}
		var got map[string]any
		if err := json.Unmarshal(out, &got); err != nil || !reflect.DeepEqual(got, document) {
			t.Fatalf("seed %d: %s\ngot  %s (%v)", seed, text, out, err)
		}
	}
	if blanked < 300 {
		t.Errorf("only %d of all had usage", blanked)
	}
}
