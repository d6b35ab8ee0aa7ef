package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
)

func TestADocumentIsValidExactlyWhenEncodingJSONSaysSo(t *testing.T) {
	for _, text := range seeds {
		check(t, []byte(text))
	}
}

// seeds are texts that have broken JSON readers.
var seeds = []string{
	``, ` `, `{}`, `[]`, `{"a":1}`, `{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`,
	`null`, `nul`, `nullx`, `true`, `false`, `tru`, `TRUE`, `"`, `"a`, `"a"`, `"\"`, `"\\"`, `"\u12"`, `"\u12g4"`, `"\ud83d\ude00"`,
	`"\ud83d"`, `"\ude00\ud83d"`, `"\ud83d\u0041"`, `"\x"`, "\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"\xff\"", "\"a\xc3\"", "\"\xed\xa0\x80\"",
	`0`, `-0`, `01`, `-`, `+1`, `1.`, `.5`, `1.5`, `1e`, `1e+`, `1e5`, `1E-5`, `1.5e300`, `-1.e3`, `0x10`, `1_0`, `Infinity`, `NaN`,
	`{"a":[{"b":[[]]}]}`, `[[[[`, `]]]]`, `{"a":[}`, `[{"a":1]}`, `[1 2]`, `[1,2`, `{"a":1`, `{"a":1}}`, `{} {}`, `{}x`, ` {} `,
	"\t\r\n {\t\"a\"\r:\n1 } \n", "\v{}", "\u00a0{}", `{"mod\u0065l":"x"}`, `{"a":"01234567\"89"}`, `{"a":"0123456\\"}`,
	`{"messages":[{"role":"user","content":"hello there, this is longer than eight bytes"}]}`,
}

func FuzzDocument(f *testing.F) {
	for _, text := range seeds {
		f.Add([]byte(text))
	}
	f.Fuzz(check)
}

// check compares everything that this package says of a text with what
// encoding/json makes of it.
func check(t *testing.T, text []byte) {
	span, err := Document(text)
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		text, span = text[3:], Span{span.Start - 3, span.End - 3}
	}
	if want := json.Valid(text); (err == nil) != want {
		var e *Error
		if want && errors.As(err, &e) && strings.HasPrefix(e.What, "nested") {
			return
		}
		t.Fatalf("Document(%q) = %v, valid is %v", text, err, want)
	}
	if err != nil {
		var e *Error
		if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(text)+3 {
			t.Fatalf("Document(%q): %v has no place in the text", text, err)
		}
		return
	}
	if got := bytes.TrimSpace(text); !bytes.Equal(span.Of(text), got) {
		t.Fatalf("Document(%q) is at %q", text, span.Of(text))
	}
	checkValue(t, text, span)
}

func checkValue(t *testing.T, text []byte, s Span) {
	raw := s.Of(text)
	switch s.KindOf(text) {
	case Object:
		var want map[string]json.RawMessage
		mustUnmarshal(t, raw, &want)
		got := map[string]json.RawMessage{}
		m := MembersAt(text, s.Start)
		for m.Next() {
			got[string(m.Key())] = m.Bytes()
			if !m.Is(string(m.Key())) {
				t.Fatalf("%q is not its own key %q", m.KeySpan().Of(text), m.Key())
			}
			checkValue(t, text, m.Value())
		}
		if m.Err() != nil || m.End() != s.End || len(got) != len(want) {
			t.Fatalf("members of %q: %v at %d; got %d, want %d", raw, m.Err(), m.End(), len(got), len(want))
		}
		for k, v := range want {
			if !bytes.Equal(got[k], v) {
				t.Fatalf("member %q of %q: got %q, want %q", k, raw, got[k], v)
			}
			if found, ok := Find(text, s.Start, k); !ok || !bytes.Equal(found.Of(text), v) {
				t.Fatalf("Find %q in %q: got %q", k, raw, found.Of(text))
			}
		}
	case Array:
		var want []json.RawMessage
		mustUnmarshal(t, raw, &want)
		e := ElementsAt(text, s.Start)
		i := 0
		for ; e.Next(); i++ {
			if !bytes.Equal(e.Bytes(), want[i]) {
				t.Fatalf("element %d of %q: got %q, want %q", i, raw, e.Bytes(), want[i])
			}
			checkValue(t, text, e.Value())
		}
		if e.Err() != nil || e.End() != s.End || i != len(want) {
			t.Fatalf("elements of %q: %v at %d; got %d, want %d", raw, e.Err(), e.End(), i, len(want))
		}
	case String:
		var want string
		mustUnmarshal(t, raw, &want)
		if got := string(Text(raw, nil)); got != want {
			t.Fatalf("Text(%q) = %q, want %q", raw, got, want)
		}
		if got := string(AppendText([]byte("x"), raw)); got != "x"+want {
			t.Fatalf("AppendText(%q) = %q, want x%q", raw, got, want)
		}
	case Number:
		checkInteger(t, raw)
	default:
		if n, flaw := Integer(raw); n != 0 || flaw != NotNumber {
			t.Fatalf("Integer(%q) = %d, %v", raw, n, flaw)
		}
	}
}

func checkInteger(t *testing.T, raw []byte) {
	if i := bytes.IndexAny(raw, "eE"); i >= 0 && len(raw)-i > 6 {
		return // math/big would take for ever
	}
	r, ok := new(big.Rat).SetString(string(raw))
	if !ok {
		t.Fatalf("math/big does not read %q", raw)
	}
	want, n := NoFlaw, int64(0)
	switch {
	case r.Sign() < 0:
		want = Negative
	case !r.IsInt():
		want = Fractional
	case r.Cmp(new(big.Rat).SetInt64(MaxInteger)) > 0:
		want, n = TooLarge, MaxInteger
	default:
		n = r.Num().Int64()
	}
	if got, flaw := Integer(raw); got != n || flaw != want {
		t.Fatalf("Integer(%q) = %d, %v; want %d, %v", raw, got, flaw, n, want)
	}
}

func mustUnmarshal(t *testing.T, raw []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatal(err)
	}
}

func TestIntegersAreReadExactly(t *testing.T) {
	for _, s := range []struct {
		text string
		n    int64
		flaw Flaw
	}{
		{"0", 0, NoFlaw},
		{"-0", 0, NoFlaw},
		{"-0.0e9", 0, NoFlaw},
		{"0e999999999999999999999", 0, NoFlaw},
		{"1e3", 1000, NoFlaw},
		{"1E+3", 1000, NoFlaw},
		{"1000.0", 1000, NoFlaw},
		{"1000.000e0", 1000, NoFlaw},
		{"1.5e1", 15, NoFlaw},
		{"0.0012e4", 12, NoFlaw},
		{"12000e-3", 12, NoFlaw},
		{"9007199254740992", MaxInteger, NoFlaw},
		{"9007199254740993", MaxInteger, TooLarge},
		{"9007199254740992.0", MaxInteger, NoFlaw},
		{"9007199254740992.1", 0, Fractional},
		{"99999999999999999999999999999999", MaxInteger, TooLarge},
		{"1e16", MaxInteger, TooLarge},
		{"1e30", MaxInteger, TooLarge},
		{"1e999999999999999999999", MaxInteger, TooLarge},
		{"1e-999999999999999999999", 0, Fractional},
		{"1.5", 0, Fractional},
		{"-5", 0, Negative},
		{"-1.5", 0, Negative},
		{"-1e99", 0, Negative},
		{`"12"`, 0, NotNumber},
		{"null", 0, NotNumber},
		{"true", 0, NotNumber},
		{"", 0, NotNumber},
		{"12 ", 0, NotNumber},
		{"1e", 0, NotNumber},
		{"01", 0, NotNumber},
	} {
		if n, flaw := Integer([]byte(s.text)); n != s.n || flaw != s.flaw {
			t.Errorf("Integer(%q) = %d, %v; want %d, %v", s.text, n, flaw, s.n, s.flaw)
		}
	}
}

func TestAnErrorNamesItsPlace(t *testing.T) {
	for _, s := range []struct {
		text   string
		offset int
	}{
		{"", 0},
		{"  ", 2},
		{`{"a":1,}`, 7},
		{`{"a" 1}`, 5},
		{`{"a":tru}`, 5},
		{`{"a":"b`, 7},
		{`{"a":"\q"}`, 6},
		{"{\"a\":\"b\x01\"}", 7},
		{`[1 2]`, 3},
		{`{} {}`, 3},
		{"\xef\xbb\xbf{} x", 6},
		{`{"a":1.}`, 7},
		{`{"a":1e}`, 7},
	} {
		_, err := Document([]byte(s.text))
		var e *Error
		if !errors.As(err, &e) || e.Offset != s.offset {
			t.Errorf("Document(%q): got %v, want offset %d", s.text, err, s.offset)
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	nested := func(n int) []byte {
		return []byte(strings.Repeat(`[`, n) + strings.Repeat(`]`, n))
	}
	if _, err := Document(nested(MaxDepth)); err != nil {
		t.Errorf("%d levels: %v", MaxDepth, err)
	}
	if _, err := Document(nested(MaxDepth + 1)); err == nil {
		t.Errorf("%d levels are accepted", MaxDepth+1)
	}
}

func TestAWalkOverSomethingElseIsEmptyAndSaysWhy(t *testing.T) {
	for _, text := range []string{``, `[]`, `1`, `"{}"`} {
		m := MembersAt([]byte(text), 0)
		if m.Next() || m.Err() == nil {
			t.Errorf("members of %q: no error", text)
		}
	}
	e := ElementsAt([]byte(`{}`), 0)
	if e.Next() || e.Err() == nil {
		t.Error("elements of an object: no error")
	}
	broken := MembersAt([]byte(`{"a":1,"b":`), 0)
	n := 0
	for broken.Next() {
		n++
	}
	if n != 1 || broken.Err() == nil {
		t.Errorf("got %d members and %v, want one and an error", n, broken.Err())
	}
}

func TestTextAliasesWhatNeedsNoDecoding(t *testing.T) {
	token := []byte(`"plain"`)
	if got := Text(token, nil); &got[0] != &token[1] {
		t.Error("a plain string was copied")
	}
	buf := make([]byte, 0, 16)
	if got := Text([]byte(`"a\nb"`), buf); string(got) != "a\nb" || &got[0] != &buf[:1][0] {
		t.Errorf("got %q outside of the buffer", got)
	}
}

func TestTheLastOfTwoKeysIsFound(t *testing.T) {
	text := []byte(`{"a":1,"\u0061":2,"A":3}`)
	if got, ok := Find(text, 0, "a"); !ok || string(got.Of(text)) != "2" {
		t.Errorf("got %q, want 2", got.Of(text))
	}
	if _, ok := Find(text, 0, "b"); ok {
		t.Error("b was found")
	}
}

func TestAKindIsToldByItsFirstByte(t *testing.T) {
	for text, want := range map[string]Kind{
		`{`: Object, `[`: Array, `"`: String, `t`: Bool, `f`: Bool, `n`: Null, `-`: Number, `0`: Number, `9`: Number, `x`: None, ` `: None, `]`: None, `+`: None, `.`: None, ``: None,
	} {
		if got := KindAt([]byte(text), 0); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
	if KindAt([]byte("{}"), -1) != None || KindAt([]byte("{}"), 2) != None {
		t.Error("a kind was told outside of the text")
	}
}

func TestSkipStopsBehindOneValue(t *testing.T) {
	for text, want := range map[string]int{
		`1,2`: 1, `-1.5e+3]`: 7, `"a\"b"c`: 6, `{"a":[1]}}`: 9, "[]\t": 2, `null1`: 4, `true,`: 4, `[[],{}]x`: 7, `0123`: 1, `1.5.5`: 3, `""""`: 2,
	} {
		if got, err := Skip([]byte(text), 0); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, at := range []int{-1, 2, 99} {
		if _, err := Skip([]byte(`{}`), at); err == nil {
			t.Errorf("a value was found at %d", at)
		}
	}
}

func TestADocumentIsFoundBehindAMarkAndWhiteSpace(t *testing.T) {
	for text, want := range map[string]Span{
		`{}`: {0, 2}, " \t\r\n7 ": {4, 5}, "\xef\xbb\xbf[]": {3, 5}, "\xef\xbb\xbf \"x\"\n": {4, 7},
	} {
		if got, err := Document([]byte(text)); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"\xef\xbb{}", " \xef\xbb\xbf{}", "\xef\xbb\xbf\xef\xbb\xbf{}"} {
		if _, err := Document([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestStringsAreDecodedAtEveryEscape(t *testing.T) {
	for token, want := range map[string]string{
		`""`:                   "",
		`"\"\\\/\b\f\n\r\t"`:   "\"\\/\b\f\n\r\t",
		`"\u0000\u00e9\u4E16"`: "\x00\u00e9\u4e16",
		`"\ud83d\ude00"`:       "\U0001F600",
		`"\uD83D\uDE00x"`:      "\U0001F600x",
		`"\ud83d"`:             "\uFFFD",
		`"\ud83dx"`:            "\uFFFDx",
		`"\ud83d\n"`:           "\uFFFD\n",
		`"\ude00\ud83d"`:       "\uFFFD\uFFFD",
		`"\ud83d\ud83d\ude00"`: "\uFFFD\U0001F600",
		"\"a\xffb\"":           "a\uFFFDb",
		"\"\xed\xa0\x80\\n\"":  "\uFFFD\uFFFD\uFFFD\n",
	} {
		if got := string(Text([]byte(token), nil)); got != want {
			t.Errorf("%s: got %q, want %q", token, got, want)
		}
		if got := string(AppendText(nil, []byte(token))); got != want {
			t.Errorf("%s, appended: got %q, want %q", token, got, want)
		}
	}
	for token, want := range map[string]string{`"a\`: "a", `"ab\u00"`: "ab", `"a\uzzzz"`: "a", `7`: "", `"`: "", ``: ""} {
		if got := string(AppendText(nil, []byte(token))); got != want {
			t.Errorf("%q, which is no string: got %q, want %q", token, got, want)
		}
	}
}

func TestEveryCutOfADocumentIsAnError(t *testing.T) {
	whole := `{"a":[1,-2.5e3,true,false,null,"x\u00e9\"y"],"b":{"c":{}},"d":[]}`
	if _, err := Document([]byte(whole)); err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if _, err := Document([]byte(whole[:n])); err == nil {
			t.Errorf("%q is accepted", whole[:n])
		}
		if _, err := Document([]byte(whole[:n] + "\x00" + whole[n+1:])); err == nil {
			t.Errorf("%q with a control character at %d is accepted", whole, n)
		}
	}
}

func TestLongStringsEndAtTheFirstByteThatCounts(t *testing.T) {
	for length := range 100 {
		for _, end := range []byte{'"', '\\', 0x1F, 0x00} {
			for _, fill := range []byte{'a', 0x7F, 0x80, 0xFF, ' ', '!', '#', '[', ']'} {
				text := append(bytes.Repeat([]byte{fill}, length), end, '"', '\\', 1, 2, 3, 4, 5, 6, 7)
				text = append(text, bytes.Repeat([]byte{fill, '"'}, 20)...)
				if got := plain(text, 0); got != length {
					t.Fatalf("%q: got %d, want %d", text, got, length)
				}
			}
		}
		if got := plain(bytes.Repeat([]byte("x"), length), 0); got != length {
			t.Fatalf("%d plain bytes end at %d", length, got)
		}
	}
}

func TestAFlawSaysWhatItIs(t *testing.T) {
	for flaw, want := range map[Flaw]string{NotNumber: "not a number", Negative: "negative", Fractional: "fractional", TooLarge: "too large", NoFlaw: "an integer"} {
		if flaw.String() != want {
			t.Errorf("got %q, want %q", flaw, want)
		}
	}
}

func BenchmarkDocument(b *testing.B) {
	line := `{"role":"user","content":"` + strings.Repeat("The quick brown fox jumps. ", 40) + `","n":[1,2.5,{"a":null}]},`
	text := []byte(`{"model":"gpt-4o","messages":[` + strings.Repeat(line, 300) + `{}],"max_tokens":1000}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		m := MembersAt(text, Start(text))
		for m.Next() {
			m.Is("model")
		}
		if m.Err() != nil {
			b.Fatal(m.Err())
		}
	}
}
