package bpe

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// tiny is a vocabulary of all bytes and some merges, in the order of rank.
func tiny(t testing.TB, merges ...string) *vocabulary {
	t.Helper()
	v, err := newVocabulary(withBytes(merges...))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func withBytes(merges ...string) [][]byte {
	var tokens [][]byte
	for b := range 256 {
		tokens = append(tokens, []byte{byte(b)})
	}
	for _, m := range merges {
		tokens = append(tokens, []byte(m))
	}
	return tokens
}

// naive encodes by looking for the lowest rank again and again.
func naive(tokens [][]byte, s []byte) []uint32 {
	rank := map[string]uint32{}
	for id, t := range tokens {
		rank[string(t)] = uint32(id)
	}
	var parts []string
	for _, b := range s {
		parts = append(parts, string([]byte{b}))
	}
	for {
		best, at := none, -1
		for i := range len(parts) - 1 {
			if r, ok := rank[parts[i]+parts[i+1]]; ok && r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			break
		}
		parts[at] += parts[at+1]
		parts = slices.Delete(parts, at+1, at+2)
	}
	var ids []uint32
	for _, p := range parts {
		ids = append(ids, rank[p])
	}
	return ids
}

// trained returns the merges that training on a text gives: the commonest pair
// first, as the real vocabularies were made.
func trained(text string, n int) []string {
	var parts []string
	for i := range len(text) {
		parts = append(parts, text[i:i+1])
	}
	var merges []string
	for range n {
		pairs := map[[2]string]int{}
		for i := range len(parts) - 1 {
			pairs[[2]string{parts[i], parts[i+1]}]++
		}
		var best [2]string
		for p, k := range pairs {
			if k > pairs[best] || k == pairs[best] && fmt.Sprint(p) < fmt.Sprint(best) {
				best = p
			}
		}
		if pairs[best] < 2 || slices.Contains(merges, best[0]+best[1]) {
			break
		}
		merges = append(merges, best[0]+best[1])
		var next []string
		for i := 0; i < len(parts); i++ {
			if i+1 < len(parts) && parts[i] == best[0] && parts[i+1] == best[1] {
				next = append(next, parts[i]+parts[i+1])
				i++
				continue
			}
			next = append(next, parts[i])
		}
		parts = next
	}
	return merges
}

func TestSmallVocabulariesEncodeAsTheDefinitionSays(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, alphabet := range []string{"ab", "abc", "aab", "a", "abcdefg"} {
		random := func(n int) []byte {
			s := make([]byte, n)
			for i := range s {
				s[i] = alphabet[r.IntN(len(alphabet))]
			}
			return s
		}
		merges := trained(string(random(400)), 60)
		tokens := withBytes(merges...)
		c := newCounter(splitO200K, tiny(t, merges...))
		for range shorter(400) {
			s := random(1 + r.IntN(60))
			want := naive(tokens, s)
			if !c.backtrack(s) {
				c.mergeWindow(s)
			}
			if !slices.Equal(c.stack, want) {
				t.Fatalf("%q with %q: %v, want %v", s, merges, c.stack, want)
			}
			if got := define(c, s); !slices.Equal(got, want) {
				t.Fatalf("by rank, %q with %q: %v, want %v", s, merges, got, want)
			}
		}
		for n := 1; n < 200; n++ {
			s := bytes.Repeat([]byte(alphabet[:1]), n)
			var got []uint32
			c.mergeRepeated(s[0], n, func(ids []uint32) { got = append(got, ids...) })
			if want := naive(tokens, s); !slices.Equal(got, want) {
				t.Fatalf("%d times %q with %q: %v, want %v", n, s[:1], merges, got, want)
			}
		}
	}
}

func TestCompatibleTellsWhichTokensStaySideBySide(t *testing.T) {
	v := tiny(t, "ab", "bc", "abc") // a b → ab comes before b c → bc
	id := func(s string) uint32 { return v.find([]byte(s)) }
	for _, s := range []struct {
		left, right string
		want        bool
	}{
		{"a", "c", true}, {"a", "b", false}, {"ab", "c", false}, {"ab", "a", true}, {"a", "bc", false},
		{"b", "bc", true}, {"bc", "a", true}, {"abc", "abc", true}, {"c", "ab", true},
	} {
		if got := v.compatible(id(s.left), id(s.right)); got != s.want {
			t.Errorf("%s %s: %v, want %v", s.left, s.right, got, s.want)
		}
	}
}

func TestAVocabularyThatMergesCannotMakeIsRefused(t *testing.T) {
	if _, err := newVocabulary(withBytes("abc")); err == nil {
		t.Error("abc without ab or bc is taken")
	}
	if _, err := newVocabulary(withBytes()[:200]); err == nil {
		t.Error("a vocabulary without all bytes is taken")
	}
}

func TestRanksAreReadWithTheirHoles(t *testing.T) {
	line := func(s string, rank any) string {
		return base64.StdEncoding.EncodeToString([]byte(s)) + " " + fmt.Sprint(rank) + "\n"
	}
	got, err := parseRanks([]byte(line("a", 0) + "\n" + line("bc", 3)))
	if err != nil || len(got) != 4 || string(got[0]) != "a" || string(got[3]) != "bc" || got[1] != nil {
		t.Errorf("%q %v", got, err)
	}
	for _, bad := range []string{line("a", -1), line("a", "x"), line("a", 1<<20), "!!! 1\n", line("", 1), line(strings.Repeat("a", 300), 1)} {
		if _, err := parseRanks([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestTheTrieFindsTheLongestToken(t *testing.T) {
	const name = "r50k_base"
	tokens := tokensOf(t, name)
	v := get(t, name).vocab
	known := map[string]uint32{}
	for id, token := range tokens {
		if len(token) > 0 {
			known[string(token)] = uint32(id)
		}
	}
	longest := func(s []byte) uint32 {
		for n := len(s); n > 0; n-- {
			if id, ok := known[string(s[:n])]; ok {
				return id
			}
		}
		return none
	}
	r := rand.New(rand.NewPCG(31, 32))
	for range 2000 {
		s := slices.Concat(tokens[r.IntN(50_000)], tokens[r.IntN(50_000)])
		s = s[:1+r.IntN(len(s))]
		if got, want := v.trie.longest(s, &v.single), longest(s); got != want {
			t.Fatalf("%q starts with %d, want %d", s, got, want)
		}
	}
	for id, token := range tokens {
		if len(token) < 2 {
			continue
		}
		if got, want := v.shorter[id], longest(token[:len(token)-1]); got != want {
			t.Fatalf("the longest prefix of %q is %d, want %d", token, got, want)
		}
	}
}

func TestTablesHoldWhatWasPutIntoThem(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	short, middle, pairs := newShortTable(3000), newMiddleTable(3000), newPairTable(3000)
	texts, both := map[string]uint32{}, map[[2]uint32]uint32{}
	for len(texts) < 3000 {
		s := make([]byte, 1+r.IntN(15))
		for i := range s {
			s[i] = byte(r.IntN(4))
		}
		texts[string(s)] = uint32(len(texts))
	}
	for s, id := range texts {
		if n := len(s); n <= 7 {
			short.put(shortKey(load([]byte(s)), n), id)
		} else {
			middle.put(keyOf8(load([]byte(s)), load([]byte(s)[n-8:]), n), id)
		}
	}
	for len(both) < 3000 {
		p := [2]uint32{r.Uint32N(1 << tokenBits), r.Uint32N(1 << tokenBits)}
		if _, ok := both[p]; !ok {
			both[p] = uint32(len(both))
			pairs.put(p[0], p[1], both[p])
		}
	}
	for s, id := range texts {
		n := len(s)
		if n <= 7 {
			if i := short.find(shortKey(load([]byte(s)), n)); i < 0 || short.ids[i] != id {
				t.Fatalf("%q is not found", s)
			}
		} else if i := middle.find(keyOf8(load([]byte(s)), load([]byte(s)[n-8:]), n)); i < 0 || middle.ids[i] != id {
			t.Fatalf("%q is not found", s)
		}
	}
	for p, id := range both {
		if got := pairs.merge(p[0], p[1]); got != id {
			t.Fatalf("%v is %d, want %d", p, got, id)
		}
	}
	for range 3000 {
		p := [2]uint32{r.Uint32N(1 << tokenBits), r.Uint32N(1 << tokenBits)}
		if _, ok := both[p]; !ok && pairs.merge(p[0], p[1]) != none {
			t.Fatalf("%v is found", p)
		}
	}
	if middle.find(keyOf8(1, 2, 9)) >= 0 || short.find(shortKey(0x3f3f3f, 3)) >= 0 {
		t.Error("what was not put in is found")
	}
}

func TestKeysTellZerosFromNothing(t *testing.T) {
	seen := map[uint64]string{}
	for n := range 8 {
		s := make([]byte, n)
		key := shortKey(load(s), n)
		if other, ok := seen[key]; ok && n > 0 {
			t.Errorf("%x has the key of %q", s, other)
		}
		seen[key] = string(s)
	}
}

func TestAByteSetRanksItsMembers(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	for range 100 {
		var set byteSet
		var members []int
		for b := range 256 {
			if r.IntN(3) == 0 {
				set.add(uint8(b))
				members = append(members, b)
			}
		}
		set.rankAll()
		for b := range 256 {
			i, ok := slices.BinarySearch(members, b)
			if rank, is := set.rank(uint8(b)); is != ok || rank != i {
				t.Fatalf("%d: %d %v, want %d %v", b, rank, is, i, ok)
			}
		}
	}
}

func TestAHeapGivesTheLeastFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	for range 200 {
		var m merger
		var want []uint64
		for range r.IntN(50) {
			x := r.Uint64N(20)
			m.push(x)
			want = append(want, x)
		}
		slices.Sort(want)
		for i, x := range want {
			if got := m.pop(); got != x {
				t.Fatalf("the %d. is %d, want %d", i, got, x)
			}
		}
	}
}

func TestACutIsOnlyWhereAPieceEnds(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a": 0, "ab cd": 2, "ab  cd": 2, "a\nb": 1, "é b": 2, "й\n": 2, "½ b": 2, ". b": 0, "a\u0301 b": 0,
		"数字。字": 6, "数字，": 6, "数字字": 0, "数\u3099": 0, "1。": 0, "。。": 0, "a。": 1, "a\xff": 0, "\xff b": 0, "a\u2028": 0, "a、 b": 1, "é'\u2019s": 0, "a1 b": 2, "abc": 0, " a": 0, "a\tb": 0,
	} {
		if got := Cut([]byte(text), 0); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
