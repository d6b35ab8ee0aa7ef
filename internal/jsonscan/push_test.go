package jsonscan

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// The places of the test's tree.
const (
	idModel = iota + 1
	idText
	idUsage
	idIn
	idList
	idItem
	idDeep
)

var tree = &Node{Fields: map[string]*Node{
	"model": {ID: idModel},
	"text":  {ID: idText, Long: true},
	"usage": {ID: idUsage, Fields: map[string]*Node{"in": {ID: idIn}, "deep": {Fields: map[string]*Node{"n": {ID: idDeep}}}}},
	"list":  {ID: idList, Each: &Node{ID: idItem, Fields: map[string]*Node{"text": {ID: idText, Long: true}, "in": {ID: idIn}}}},
}}

// notes is a Visitor that writes down what it is told.
type notes struct{ strings.Builder }

func (n *notes) Open(id int, kind Kind)  { fmt.Fprintf(n, "%d( ", id) }
func (n *notes) Close(id int, kind Kind) { fmt.Fprintf(n, ")%d ", id) }
func (n *notes) Scalar(id int, kind Kind, value []byte) {
	fmt.Fprintf(n, "%d=%s ", id, value)
}

func (n *notes) Part(id int, piece []byte) {
	if piece == nil {
		fmt.Fprintf(n, "|%d ", id)
	}
	n.Write(piece)
}

func read(pieces ...string) (string, *Push) {
	var p Push
	n := &notes{}
	p.Start(tree, n)
	for _, s := range pieces {
		p.Write([]byte(s))
	}
	p.End()
	return strings.TrimSpace(n.String()), &p
}

func TestPushTellsWhatStandsAtItsNodes(t *testing.T) {
	for _, s := range []struct{ what, text, want string }{
		{"a byte order mark", "\xef\xbb\xbf{\"model\":\"m\"}", `1=m`},
		{"a member", `{"model":"m"}`, `1=m`},
		{"an escaped key", `{"mod\u0065l":"m"}`, `1=m`},
		{"an object where text is expected, as it is written", `{"text": {"a" :["x\"}y", 1,{}]} ,"model":"m"}`, `2( {"a" :["x\"}y", 1,{}]})2 1=m`},
		{"a list where text is expected", `{"text":[1,[2]],"list":[{"text":{}}]}`, `2( [1,[2]])2 5( 6( 2( {})2 )6 )5`},
		{"a key of another case", `{"Model":"m"}`, ``},
		{"a long string in pieces", `{"text":"a\n\u00e9\ud83d\ude00\"b"}`, "a\n\u00e9\U0001F600\"b|2"},
		{"the first and last pairs", `{"text":"\ud800\udc00\udbff\udfff\ud800"}`, "\U00010000\U0010FFFF\uFFFD|2"},
		{"lone surrogates", `{"text":"\ud83dx\ude00\ud83d\ud83d\ude00"}`, "\uFFFDx\uFFFD\uFFFD\U0001F600|2"},
		{"an object with its members", `{"usage":{"in":12,"out":3}}`, `3( 4=12 )3`},
		{"null where an object may be", `{"usage":null}`, `3=null`},
		{"an array where an object may be", `{"usage":[1,{"in":5}]}`, `3( )3`},
		{"nothing at another level", `{"x":{"model":"m","usage":{"in":1}},"in":7}`, ``},
		{"nothing inside strings", `{"x":"\"usage\":{\"in\":1}","text":"{\"model\":\"m\"}"}`, `{"model":"m"}|2`},
		{"elements", `{"list":[{"in":1},{"text":"a"},7,null,[2],"s"]}`, `5( 6( 4=1 )6 6( a|2 )6 6=7 6=null 6( )6 6=s )5`},
		{"an empty array and object", `{"list":[],"usage":{}}`, `5( )5 3( )3`},
		{"unknown levels", `{"y":[[{"a":"]}"}]],"model":"m"}`, `1=m`},
		{"the last of two keys last", `{"model":"a","model":"b"}`, `1=a 1=b`},
		{"a deep place", `{"usage":{"deep":{"n":1e3},"deep2":{"n":4}}}`, `3( 7=1e3 )3`},
		{"white space everywhere", " {\n\"usage\" :\t{ \"in\" : 5 } , \"list\" : [ 1 , 2 ] }\r\n", `3( 4=5 )3 5( 6=1 6=2 )5`},
	} {
		got, p := read(s.text)
		if got != s.want || !p.Done() {
			t.Errorf("%s: got %q (done %v), want %q", s.what, got, p.Done(), s.want)
		}
		if got, p := read(strings.Split(s.text, "")...); got != s.want || !p.Done() {
			t.Errorf("%s, byte by byte: got %q (done %v), want %q", s.what, got, p.Done(), s.want)
		}
	}
}

func TestPushReadsABrokenTextUpToItsError(t *testing.T) {
	for _, s := range []struct {
		text, want string
		broken     bool
	}{
		{`{"model":"m"`, `1=m`, false},
		{`{"text":"so f`, `so f`, false},
		{`{"model":"m"}}`, `1=m`, true},
		{`{"model":"m"} {}`, `1=m`, true},
		{`{"model" "m"}`, ``, true},
		{`{"usage":{"in":1x}}`, `3(`, true},
		{`{"usage":{"in":01}}`, `3(`, true},
		{`{"model":"\q"}`, ``, true},
		{`{"model":"\u12g4"}`, ``, true},
		{"{\"model\":\"a\nb\"}", ``, true},
		{`{"list":[1}`, `5( 6=1`, true},
		{`{"list":[,1]}`, `5(`, true},
		{`{,}`, ``, true},
		{`]`, ``, true},
		{`<html>`, ``, true},
		{`[DONE]`, ``, false}, // an array, outside of the tree
		{``, ``, false},
	} {
		got, p := read(s.text)
		if got != s.want || p.Broken() != s.broken {
			t.Errorf("%q: got %q, broken %v; want %q, %v", s.text, got, p.Broken(), s.want, s.broken)
		}
	}
}

func TestPushHoldsLittleOfALongText(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	_, p := read(`{"model":"`, long, `","`, long, `":1,"list":[`, strings.Repeat(`[`, 1<<16))
	if cap(p.text) > 4*MaxScalar {
		t.Errorf("%d bytes are held", cap(p.text))
	}
	got, _ := read(`{"model":"` + long + `"}`)
	if len(got) != MaxScalar+len("1=") {
		t.Errorf("a short string of %d bytes was told", len(got))
	}
}

func TestPushTakesNoKeyForAnother(t *testing.T) {
	long := strings.Repeat("k", maxKey)
	root := &Node{Fields: map[string]*Node{long: {ID: idModel}, "": {ID: idIn}, "a\nb": {ID: idDeep}}}
	for text, want := range map[string]string{
		`{"` + long + `":"m"}`:  `1=m`,
		`{"` + long + `k":"m"}`: ``,
		`{"":5}`:                `4=5`,
		`{"a\nb":5}`:            `7=5`,
		`{"a\u000ab":5}`:        `7=5`,
	} {
		var p Push
		n := &notes{}
		p.Start(root, n)
		p.Write([]byte(text))
		if got := strings.TrimSpace(n.String()); got != want || !p.Done() {
			t.Errorf("%.20q: got %q, want %q", text, got, want)
		}
	}
}

func TestPushPassesOverWhatLiesTooDeep(t *testing.T) {
	root := &Node{}
	n := root
	for range MaxPath + 3 {
		n.Fields = map[string]*Node{"a": {}}
		n = n.Fields["a"]
	}
	n.ID = idModel
	text := strings.Repeat(`{"a":`, MaxPath+3) + `"m"` + strings.Repeat(`}`, MaxPath+3)
	var p Push
	seen := &notes{}
	p.Start(root, seen)
	p.Write([]byte(text))
	if seen.String() != "" || !p.Done() {
		t.Errorf("got %q, done %v", seen.String(), p.Done())
	}
}

func TestAWordIsReadOnlyIfItIsWhole(t *testing.T) {
	for text, want := range map[string]string{
		`{"model":tru}`: ``, `{"model":nullx}`: ``, `{"model":-}`: ``, `{"model":1.}`: ``, `{"model":1e5}`: `1=1e5`, `{"model":-0.0}`: `1=-0.0`, `{"model":false}`: `1=false`,
		`{"model":` + strings.Repeat("1", maxWord+9) + `}`: `1=` + strings.Repeat("1", maxWord),
	} {
		if got, _ := read(text); got != want {
			t.Errorf("%.30q: got %q, want %q", text, got, want)
		}
	}
}

func TestANumberMayBeAWholeText(t *testing.T) {
	var p Push
	for text, want := range map[string]string{`12`: `1=12`, ` true`: `1=true`, `"x"`: `1=x`, `12 `: `1=12`, `1x`: ``} {
		n := &notes{}
		p.Start(&Node{ID: idModel}, n)
		p.Write([]byte(text))
		p.End()
		p.End()
		if got := strings.TrimSpace(n.String()); got != want || p.Done() != (want != "") {
			t.Errorf("%q: got %q, done %v", text, got, p.Done())
		}
	}
}

func TestAPushIsUsedAgain(t *testing.T) {
	var p Push
	n := &notes{}
	for range 3 {
		p.Start(tree, n)
		p.Write([]byte(`{"usage":{"in":1,"x":"unfinished`))
	}
	p.Start(tree, n)
	p.Write([]byte(`{"model":"m"}`))
	if got := strings.TrimSpace(n.String()); got != `3( 4=1 3( 4=1 3( 4=1 1=m` || !p.Done() {
		t.Errorf("got %q", got)
	}
}

func FuzzPush(f *testing.F) {
	for i, text := range seeds {
		f.Add([]byte(text), uint64(i))
	}
	f.Add([]byte(`{"model":"a\u0041","usage":{"in":1,"deep":{"n":2}},"list":[{"in":3,"text":"\ud83d\ude00"}]}`), uint64(1))
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		whole, p := read(string(text))
		random := rand.New(rand.NewPCG(seed, 1))
		var pieces []string
		for rest := string(text); rest != ""; {
			n := 1 + random.IntN(len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got, q := read(pieces...); got != whole || q.Done() != p.Done() || q.Broken() != p.Broken() {
			t.Fatalf("cut as %q: got %q, want %q", pieces, got, whole)
		}
		if json.Valid(text) && !p.Done() {
			t.Fatalf("%q is valid and was not read to its end", text)
		}
		if json.Valid(text) {
			if want := visit(t, text); whole != want {
				t.Fatalf("%q: got %q, want %q", text, whole, want)
			}
		}
	})
}

// visit does what a Push does, over a whole text by the walks of this package.
func visit(t *testing.T, text []byte) string {
	n := &notes{}
	var value func(node *Node, at Span)
	value = func(node *Node, at Span) {
		kind := at.KindOf(text)
		raw := at.Of(text)
		if kind == Object || kind == Array {
			if node.ID != 0 {
				n.Open(node.ID, kind)
				defer n.Close(node.ID, kind)
			}
			if kind == Array {
				for e := ElementsAt(text, at.Start); node.Each != nil && e.Next(); {
					value(node.Each, e.Value())
				}
				return
			}
			for m := MembersAt(text, at.Start); m.Next(); {
				if child := node.Fields[string(m.Key())]; child != nil {
					value(child, m.Value())
				}
			}
			return
		}
		if node.ID == 0 {
			return
		}
		switch {
		case kind == String && node.Long:
			n.WriteString(string(rawText(raw)))
			n.Part(node.ID, nil)
		case kind == String:
			s := rawText(raw)
			n.Scalar(node.ID, kind, s[:min(len(s), MaxScalar)])
		default:
			n.Scalar(node.ID, kind, raw)
		}
	}
	span, err := Document(text)
	if err != nil {
		t.Skip("nested too deeply")
	}
	value(tree, span)
	return strings.TrimSpace(n.String())
}

// rawText decodes a string but leaves broken UTF-8 as it is, as Push does.
func rawText(token []byte) []byte {
	var p Push
	n := &notes{}
	p.Start(&Node{ID: 1, Long: true}, n)
	p.Write(token)
	return []byte(strings.TrimSuffix(n.String(), "|1 "))
}

func BenchmarkPush(b *testing.B) {
	text := []byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000001,"model":"gpt-4.1-mini","service_tier":"default",` +
		`"choices":[{"index":0,"delta":{"content":" hello"},"logprobs":null,"finish_reason":null}],"usage":null}`)
	var p Push
	v := new(count)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		p.Start(tree, v)
		p.Write(text)
	}
	if int(*v) == 0 {
		b.Fatal("nothing was told")
	}
}

type count int

func (c *count) Open(int, Kind)           { *c++ }
func (c *count) Close(int, Kind)          { *c++ }
func (c *count) Scalar(int, Kind, []byte) { *c++ }
func (c *count) Part(int, []byte)         { *c++ }
