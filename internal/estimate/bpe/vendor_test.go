package bpe

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// vendors are the encodings that are not OpenAI's.
var vendors = []string{"qwen3", "deepseek_v3", "tekken"}

// vendorVector is a text, by its id in another file or by a recipe, with what
// the vendors' tokenizers make of it; or the hash of a vocabulary's merges.
// vocabularies/generate.mjs writes them.
type vendorVector struct {
	Of       string
	Gen      *recipe
	Merges   string
	SHA256   string
	Outcomes map[string]outcome
}

func (v *vendorVector) UnmarshalJSON(raw []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	v.Outcomes = map[string]outcome{}
	for key, value := range members {
		var err error
		switch key {
		case "of":
			err = json.Unmarshal(value, &v.Of)
		case "gen":
			err = json.Unmarshal(value, &v.Gen)
		case "merges":
			err = json.Unmarshal(value, &v.Merges)
		case "sha256":
			err = json.Unmarshal(value, &v.SHA256)
		default:
			var o outcome
			err = json.Unmarshal(value, &o)
			v.Outcomes[key] = o
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// vendorTexts returns the vectors of texts, each with its text.
func vendorTexts(t testing.TB) map[*vendorVector]string {
	t.Helper()
	texts := map[string]string{}
	for _, file := range []string{"tiktoken_vectors", "tiktoken_fuzz"} {
		for _, v := range readLines[vector](t, file) {
			texts[v.ID] = string(v.text())
		}
	}
	all := map[*vendorVector]string{}
	for _, v := range readLines[vendorVector](t, "vendor_vectors") {
		if v.Merges != "" {
			continue
		}
		text, known := texts[v.Of]
		if v.Gen != nil {
			text, known = v.Gen.make(), true
		}
		if !known {
			t.Fatalf("no text %q", v.Of)
		}
		all[&v] = text
	}
	return all
}

func TestVendorsVectorsHaveTheTokensOfTheirOwnTokenizers(t *testing.T) {
	all := vendorTexts(t)
	if len(all) < 4000 {
		t.Fatalf("%d vectors, want some thousands", len(all))
	}
	for _, name := range fewer(vendors) {
		e := get(t, name)
		for v, text := range all {
			want, ok := v.Outcomes[name]
			if !ok {
				t.Fatalf("%s: no outcome for %q", name, text)
			}
			ids := e.Append(nil, []byte(text))
			if got := e.Count([]byte(text)); got != len(ids) {
				t.Errorf("%s %q: counted %d, encoded %d", name, text, got, len(ids))
			}
			if got := hash(ids)[:len(want.SHA256)]; len(ids) != want.N || got != want.SHA256 {
				t.Errorf("%s %q: %d tokens %v, want %d", name, text, len(ids), head(ids), want.N)
			}
		}
	}
}

func TestMergesAreThoseOfTheVendorsOwnList(t *testing.T) {
	checked := 0
	for _, v := range readLines[vendorVector](t, "vendor_vectors") {
		if v.Merges == "" {
			continue
		}
		checked++
		var all []uint32
		for _, p := range get(t, v.Merges).vocab.parts[256:] {
			all = append(all, p.left, p.right)
		}
		if got := hash(all); got != v.SHA256 {
			t.Errorf("%s: the pairs that merging by rank joins are not those of its list", v.Merges)
		}
	}
	if checked != 2 {
		t.Errorf("%d lists of merges, want 2: Mistral publishes ranks alone", checked)
	}
}

func TestDeepSeekCutsNumbersAndItsScriptsOutFirst(t *testing.T) {
	for text, want := range map[string]string{
		"a  12":     "a|  |12", // a number is the end of a text
		"a  b":      "a| | b",
		"a \n 12":   "a| \n| |12", // but lines end as everywhere
		"12345":     "123|45",
		"漢字か な":     "漢字か| |な",
		"漢字abc漢":    "漢字|abc|漢",
		"ナ・カ":       "ナ|・|カ",
		"カ\u3099ク":  "カ\u3099ク",
		"ガ゛ク":       "ガ|゛|ク",
		"-abc":      "-abc",
		"-é":        "-|é",
		"--abc":     "--|abc", // one sign alone takes letters with it
		" -- \n":    " --| \n",
		"-\n\nx":    "-\n\n|x",
		"\x01\x02a": "\x01|\x02a",
		"\x01\x02-": "\x01\x02|-",
		"\x01":      "\x01",
		"\u0301a":   "\u0301a",
		"'sé":       "'s|é",
		"，你":        "，|你",
		"\u3040か":   "\u3040か",
		"か\u3040x":  "か|\u3040|x",
		"":          "",
	} {
		var all []string
		for _, p := range pieces(t, splitDeepSeek, []byte(text)) {
			all = append(all, string(p))
		}
		if got := strings.Join(all, "|"); got != want {
			t.Errorf("%q is cut %q, want %q", text, got, want)
		}
	}
}

func TestOnlyTextThatMayComposeIsLookedAt(t *testing.T) {
	for b := range 256 {
		for n := 1; n < 20; n++ {
			text := bytes.Repeat([]byte("a"), n)
			text[n-1] = byte(b)
			if got, want := mayCompose(text), b >= firstMark; got != want {
				t.Errorf("%#x after %d letters: %v, want %v", b, n-1, got, want)
			}
		}
	}
	for r := range rune(unicode.MaxRune + 1) {
		if r < 0x300 && (norm.NFC.PropertiesString(string(r)).CCC() != 0 || !norm.NFC.IsNormalString(string(r))) {
			t.Errorf("%U is not left alone", r)
		}
		if r >= 0x300 && utf8.ValidRune(r) && !mayCompose([]byte(string(r))) {
			t.Errorf("%U is taken for one that is left alone", r)
		}
	}
}

func TestQwenCountsDecomposedTextAsComposed(t *testing.T) {
	e := get(t, "qwen3")
	for _, text := range []string{"cafe\u0301", "\u1112\u1161\u11ab", "\u212b", "a\u0323\u0302", strings.Repeat("e\u0301 ", 50_000)} {
		composed := norm.NFC.String(text)
		if got, want := e.Append(nil, []byte(text)), e.Append(nil, []byte(composed)); !slices.Equal(got, want) || composed == text {
			t.Errorf("%.40q: %d tokens, want %d", text, len(got), len(want))
		}
		if got, want := e.CountParallel([]byte(text), 3), e.Count([]byte(composed)); got != want {
			t.Errorf("%.40q on three goroutines: %d tokens, want %d", text, got, want)
		}
	}
	text := []byte(strings.Repeat("cafe\u0301 ", 1000))
	e.Count(text)
	if n := testing.AllocsPerRun(10, func() { e.Count(text) }); n > 2 { // the library's
		t.Errorf("%v allocations, want 2 at most: none of the text", n)
	}
	if got := get(t, "tekken").Count([]byte("cafe\u0301")); got == get(t, "tekken").Count([]byte("café")) {
		t.Errorf("tekken composes too: %d tokens", got)
	}
}

func TestAVocabularyThatIsCutOffIsRefused(t *testing.T) {
	if got, err := parseTokens([]byte("\x01a\x02bc")); err != nil || len(got) != 2 || string(got[1]) != "bc" {
		t.Errorf("%q %v", got, err)
	}
	for _, bad := range []string{"\x01a\x02b", "\x00", "\x05"} {
		if _, err := parseTokens([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := readVendored("nonesuch"); err == nil {
		t.Error("a vocabulary that is not there was read")
	}
}

func TestManyMarksComposeAsFewDo(t *testing.T) {
	r := rand.New(rand.NewPCG(81, 82))
	starters := []rune("aeoÅ漢가ᄀ ")
	marks := []rune("\u0300\u0301\u0302\u0308\u0323\u0327\u0328\u0334\u0344\u0345\u05b0\u093c\u3099\u0e38\u0315\u0360")
	for range 3000 {
		text := string(starters[r.IntN(len(starters))])
		if r.IntN(10) == 0 {
			text = "" // marks on nothing
		}
		for range 1 + r.IntN(fewMarks/3) { // decomposed there may be three times as many
			text += string(marks[r.IntN(len(marks))])
		}
		if got, want := string(appendMarked(nil, []byte(text))), norm.NFC.String(text); got != want {
			t.Fatalf("%+q: %+q, want %+q", text, got, want)
		}
	}
}

func TestManyMarksGetNoJoiners(t *testing.T) {
	var c counter
	for _, n := range []int{1, fewMarks - 1, fewMarks, fewMarks + 1, 29, 30, 31, 100, 5000} {
		for _, s := range []struct{ before, on, want, after string }{
			{"", "e", "é", ""}, {"caf", "e", "é", "s"}, {"漢e\u0302 ", "o", "ó", " e\u0301"}, {"", "", "\u0301", "x"},
		} {
			text := s.before + s.on + strings.Repeat("\u0301", n) + s.after
			want := norm.NFC.String(s.before) + s.want + strings.Repeat("\u0301", n-1) + norm.NFC.String(s.after)
			if got := string(c.compose([]byte(text))); got != want {
				t.Errorf("%d marks on %q between %q and %q: %d bytes, want %d", n, s.on, s.before, s.after, len(got), len(want))
			}
		}
	}
}

func FuzzCompose(f *testing.F) {
	for _, seed := range []string{"", "e\u0301", "\u1112\u1161\u11ab", "\xff\u0301", strings.Repeat("\u0301", 40), "a" + strings.Repeat("\u0323\u0301", 30) + "\u1161"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !utf8.Valid(text) {
			return // which no body has, once it is decoded
		}
		var c counter
		once := slices.Clone(c.compose(text))
		if again := c.compose(once); !bytes.Equal(again, once) {
			t.Fatalf("%+q is %+q once and %+q twice composed", text, once, again)
		}
		// What the library has done is right if it has put no joiner between.
		if want := norm.NFC.Bytes(text); bytes.Count(want, []byte("\u034f")) == bytes.Count(text, []byte("\u034f")) && !bytes.Equal(once, want) {
			t.Fatalf("%+q is %+q, want %+q", text, once, want)
		}
	})
}
