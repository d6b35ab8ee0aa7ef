package request

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/jsonscan"
	"llmgw/internal/tokens"
)

func read(t *testing.T, text string) Body {
	t.Helper()
	b, err := Read(dialect.Request{Body: []byte(text)})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return b
}

func TestMembersAreFoundByTheirDecodedKeys(t *testing.T) {
	b := read(t, " { \"a\" : 1 , \"\\u0062\" : \"x\\ny\" , \"c\" : null , \"d\" : { \"e\" : [ 1 , 2 ] } } ")
	if at, ok := b.Find("a"); !ok || string(b.Bytes(at)) != "1" || b.Kind(at) != jsonscan.Number {
		t.Errorf("a is %q", b.Bytes(at))
	}
	if s, ok := b.Text("b"); !ok || s != "x\ny" {
		t.Errorf("b is %q", s)
	}
	if _, ok := b.Find("c"); ok {
		t.Error("null counts as a value")
	}
	if _, ok := b.Text("a"); ok {
		t.Error("a number counts as text")
	}
	inner, ok, err := b.Within("d")
	if err != nil || !ok {
		t.Fatalf("d: %v, %v", ok, err)
	}
	if at, ok := inner.Find("e"); !ok || inner.Length(at) != 2 {
		t.Errorf("e has %d elements", inner.Length(at))
	}
	if _, _, err := b.Within("a"); fault.From(err) == nil || fault.From(err).Param != "a" {
		t.Errorf("a is an object: %v", err)
	}
	if _, ok, err := b.Within("c"); ok || err != nil {
		t.Errorf("c: %v, %v", ok, err)
	}
}

func TestDuplicateKeysAreFoundInSmallAndLargeObjects(t *testing.T) {
	for _, n := range []int{1, fewMembers - 1, fewMembers + 5, maxMembers - 1} {
		var members []string
		for i := range n {
			members = append(members, fmt.Sprintf(`"k%d":%d`, i, i))
		}
		text := strings.Join(members, ",")
		if _, err := Read(dialect.Request{Body: []byte("{" + text + "}")}); err != nil {
			t.Errorf("%d keys: %v", n, err)
		}
		for _, again := range []string{`"k0":null`, `"\u006b0":1`} {
			_, err := Read(dialect.Request{Body: []byte("{" + text + "," + again + "}")})
			if f := fault.From(err); f == nil || f.Param != "k0" {
				t.Errorf("%d keys and %s: got %v", n, again, err)
			}
		}
	}
}

func TestAnObjectOfEndlessMembersIsRefused(t *testing.T) {
	members := strings.TrimSuffix(strings.Repeat(`"k":1,`, maxMembers+1), ",")
	for _, s := range []struct{ body, param string }{
		{"{" + members + "}", ""},
		{"{" + members, ""}, // nobody reads so far as to see that it is cut
		{`{"inner":{` + members + "}}", "inner"},
	} {
		b, err := Read(dialect.Request{Body: []byte(s.body)})
		if err == nil {
			_, _, err = b.Within("inner")
		}
		if f := fault.From(err); f == nil || f.Code != fault.InvalidRequest || f.Param != s.param || !strings.Contains(f.Message, "more than 1000 members") {
			t.Errorf("%.20s…: got %v", s.body, err)
		}
	}
}

func TestTheLargestNumberCountsAndEachIsChecked(t *testing.T) {
	b := read(t, `{"a":3,"b":9e0,"c":null,"zero":0,"bad":"1"}`)
	for _, s := range []struct {
		least Least
		keys  []string
		want  tokens.Count
		param string
	}{
		{FromOne, []string{"a", "b", "c", "d"}, 9, ""},
		{FromOne, []string{"b", "a"}, 9, ""},
		{FromOne, []string{"c", "d"}, 0, ""},
		{FromZero, []string{"zero"}, 0, ""},
		{FromOne, []string{"a", "zero"}, 0, "zero"},
		{FromZero, []string{"bad", "a"}, 0, "bad"},
	} {
		n, _, err := b.Largest(s.least, s.keys...)
		param := ""
		if err != nil {
			param = fault.From(err).Param
		}
		if n != s.want || param != s.param {
			t.Errorf("%v from %d: got %d, %v", s.keys, s.least, n, err)
		}
	}
}

func TestSpliceEditsInPlaceWhateverTheOrder(t *testing.T) {
	text := []byte("0123456789")
	span := func(from, to int) dialect.Span { return dialect.Span{Start: from, End: to} }
	for _, s := range []struct {
		edits []Edit
		want  string
	}{
		{nil, "0123456789"},
		{[]Edit{{span(0, 0), []byte("a")}}, "a0123456789"},
		{[]Edit{{span(10, 10), []byte("a")}}, "0123456789a"},
		{[]Edit{{span(0, 10), []byte("a")}}, "a"},
		{[]Edit{{span(7, 9), []byte("b")}, {span(1, 1), []byte("a")}, {span(3, 5), nil}}, "0a1256b9"},
		{[]Edit{{span(1, 1), []byte("a")}, {span(1, 1), []byte("b")}}, "0ab123456789"},
	} {
		if got := string(bytes.Join(Splice(text, s.edits), nil)); got != s.want {
			t.Errorf("%v: got %s, want %s", s.edits, got, s.want)
		}
	}
	if segments := Splice(text, nil); &segments[0][0] != &text[0] {
		t.Error("an unchanged body is copied")
	}
}

func TestAStringIsWrittenAsJSON(t *testing.T) {
	for _, s := range []string{"", "plain", `a"b\c`, "\x00\x1f\n\t", "é世\U0001F600", "</script>"} {
		var got string
		if err := json.Unmarshal(AppendString(nil, s), &got); err != nil || got != s {
			t.Errorf("%q became %s (%v)", s, AppendString(nil, s), err)
		}
	}
}

func TestCredentialsLeaveTheQuery(t *testing.T) {
	for raw, want := range map[string]string{
		"":                             "",
		"key=s":                        "",
		"a=1&key=s&b=%20+x":            "a=1&b=%20+x",
		"k%65y=s&keys=1&KEY=2&&":       "keys=1&KEY=2",
		"key&a":                        "a",
		"%zz=1&key=s":                  "%zz=1",
		"include[]=a&include[]=b&key=": "include[]=a&include[]=b",
	} {
		if got := Query(raw, "key"); got != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
	}
}

func TestAHeaderThatIsChangedLeavesTheClientsAlone(t *testing.T) {
	sent := dialect.Header{"Accept": {"a"}, "X-Custom": {"1"}}
	h := Header(dialect.Request{Header: sent, Body: []byte("{}")})
	h.Add("Accept", "b")
	h.Set("X-Custom", "2")
	h.Del("Content-Type")
	if len(sent["Accept"]) != 1 || sent.Get("X-Custom") != "1" || len(sent) != 2 {
		t.Errorf("the client's headers became %v", sent)
	}
	if h := Header(dialect.Request{}); h.Get("Content-Type") != "" || h.Get("Accept-Encoding") != "identity" {
		t.Errorf("a call without a body has %v", h)
	}
}

func TestWhatEndsAtTheGatewayIsNotPassedOn(t *testing.T) {
	sent := dialect.Header{"Connection": {"X-Named, keep-alive", " x-other "}, "X-Named": {"1"}, "X-Other": {"1"}, "X-Llmgw-Anything": {"1"}}
	for _, name := range []string{
		"Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Host", "Content-Length", "Content-Encoding",
		"Authorization", "Proxy-Authorization", "Proxy-Authenticate", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie", "X-Amz-Security-Token", "X-Amz-Date",
		"X-Amz-Content-Sha256", "Openai-Organization", "Openai-Project", "X-Goog-User-Project", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host",
		"X-Forwarded-Proto", "X-Forwarded-Port", "X-Real-Ip", "Via", "X-Forwarded-Client-Cert", "Cf-Connecting-Ip", "True-Client-Ip", "X-Original-Forwarded-For",
		"X-Vault-Token", "Cf-Access-Client-Secret", "Ocp-Apim-Subscription-Key", "Helicone-Auth", "Private-Token",
		"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Url", "X-Rewrite-Url",
	} {
		sent[name] = []string{"1"}
	}
	for _, kept := range []string{"Accept", "Accept-Encoding", "User-Agent", "Content-Type", "Idempotency-Key", "Traceparent", "Anthropic-Beta", "X-Request-Id", "X-Stainless-Retry-Count", "Range"} {
		sent[kept] = []string{"1"}
	}
	h := Header(dialect.Request{Header: sent})
	if len(h) != 10 {
		t.Errorf("got %v", h)
	}
	for name, values := range h {
		if len(values) != 1 || values[0] != "1" {
			t.Errorf("%s became %v", name, values)
		}
	}
	if h := Header(dialect.Request{Header: dialect.Header{"X-Empty": nil, "Accept-Encoding": {""}}}); h["X-Empty"] != nil || len(h["Accept-Encoding"]) != 1 {
		t.Errorf("got %v", h)
	}
}

func TestAURLIsJoinedOnce(t *testing.T) {
	for _, s := range [][4]string{
		{"https://x/v1", "/a", "", "https://x/v1/a"},
		{"https://x/v1/", "/a", "", "https://x/v1/a"},
		{"https://x//", "/a", "b=1", "https://x/a?b=1"},
		{"https://x", "/a%2Fb", "c", "https://x/a%2Fb?c"},
	} {
		if got := URL(s[0], s[1], s[2]); got != s[3] {
			t.Errorf("got %s, want %s", got, s[3])
		}
	}
}

func TestTheContentTypeMustBeJSON(t *testing.T) {
	for sent, ok := range map[string]bool{
		"": true, "application/json": true, "application/json;charset=utf-8": true, "APPLICATION/JSON": true, "application/problem+json": true,
		"text/json": false, "application/jsonp": false, "text/plain": false, "application/json, text/plain": false, ";": false,
	} {
		_, err := Read(dialect.Request{Body: []byte("{}"), Header: dialect.Header{"Content-Type": {sent}}})
		if (err == nil) != ok {
			t.Errorf("%q: got %v", sent, err)
		}
	}
}

func TestASwitchIsTrueOrFalse(t *testing.T) {
	b := read(t, `{"on":true,"off":false,"none":null,"word":"true","number":1}`)
	for _, s := range []struct {
		key    string
		absent Setting
		want   Setting
		ok     bool
	}{
		{"on", Off, On, true}, {"off", On, Off, true}, {"none", On, On, true}, {"none", Off, Off, true}, {"missing", On, On, true}, {"word", Off, Off, false}, {"number", Off, Off, false},
	} {
		got, err := b.Switch(s.key, s.absent)
		if got != s.want || (err == nil) != s.ok || err != nil && fault.From(err).Param != s.key {
			t.Errorf("%s: got %v, %v", s.key, got, err)
		}
	}
}

// F11: a lax server takes "true" for true.
func TestAStreamIsAskedForByTrueOrFalseAlone(t *testing.T) {
	for text, want := range map[string][2]bool{ // of an API whose default is off, and of one whose default is on
		`{}`: {false, true}, `{"stream":null}`: {false, true}, `{"stream":true}`: {true, true}, `{"stream":false}`: {false, false},
	} {
		b := read(t, text)
		off, err := b.Stream(Off)
		on, err2 := b.Stream(On)
		if got := [2]bool{off, on}; got != want || err != nil || err2 != nil {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{`"true"`, `"True"`, `"false"`, `""`, `1`, `0`, `[true]`, `{}`} {
		if _, err := read(t, `{"stream":`+text+`}`).Stream(Off); err == nil || fault.From(err).Param != "stream" {
			t.Errorf("%s: got %v, want an invalid stream", text, err)
		}
	}
}

func TestTheUserIsTheFirstThatIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		`{"user":"a","safety_identifier":"b","metadata":{"user_id":"c"}}`: "a",
		`{"safety_identifier":"b","metadata":{"user_id":"c"}}`:            "b",
		`{"metadata":{"user_id":"c","user_id":"d"}}`:                      "d",
		`{"metadata":{"user":"c"}}`:                                       "",
		`{"metadata":"x"}`:                                                "",
		`{"user":["a"]}`:                                                  "",
		`{}`:                                                              "",
	} {
		if got, _ := read(t, text).User(); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestALimitIsToldInItsUnit(t *testing.T) {
	for _, s := range []struct {
		unit string
		n    int64
		want string
	}{
		{"tokens", 100000, "100000"},
		{"tokens", -5, "-5"},
		{"usd", 500_000_000, "500"},
		{"usd", 0, "0"},
		{"usd", 1, "0.000001"},
		{"usd", 1_250_000, "1.25"},
		{"usd", -10_000, "-0.01"},
	} {
		e := &fault.Error{Limit: &fault.Limit{Unit: s.unit, Amount: s.n, Per: "day"}, Wait: time.Nanosecond}
		text := string(AppendLimit(nil, e))
		if !json.Valid([]byte(text)) || !strings.Contains(text, `"amount":`+s.want+`,`) || !strings.HasSuffix(text, `"retry_after_ms":1}`) {
			t.Errorf("%d %s: got %s, want %s", s.n, s.unit, text, s.want)
		}
	}
}

func TestAModelsNameIsChecked(t *testing.T) {
	for name, ok := range map[string]bool{"gpt-4o": true, "a/b:c@d é": true, "": false, "a\nb": false, "a\x7f": false, "..": false, ".": false, "a/../b": false, `a\..`: false, "./a": false, "a..b": true, "v1.5": true, "a/...": true, strings.Repeat("m", maxModel): true, strings.Repeat("m", maxModel+1): false} {
		if err := CheckModel(name); (err == nil) != ok {
			t.Errorf("%.20q: got %v", name, err)
		}
	}
}

// FuzzMember writes a member into any object: it must be there, and all others
// as they were.
func FuzzMember(f *testing.F) {
	f.Add(`{"a":{"b":1}}`, "b", 5)
	f.Add(`{}`, "a", 0)
	f.Fuzz(func(t *testing.T, text, key string, n int) {
		b, err := Read(dialect.Request{Body: []byte(text)})
		if err != nil || !json.Valid([]byte(text)) {
			return
		}
		value := fmt.Appendf(nil, "%d", n)
		key = strings.ToValidUTF8(key, "?")
		c := &dialect.Call{Request: dialect.Request{Body: b.Data}, BodyObject: b.Object, Members: b.Members}
		for _, edit := range []Edit{Member(c, key, value), MemberOf(b.Data, b.Object, key, value)} {
			out := bytes.Join(Splice(b.Data, []Edit{edit}), nil)
			again, err := Read(dialect.Request{Body: out})
			if err != nil {
				t.Fatalf("%q with %q became %q: %v", text, key, out, err)
			}
			if at, ok := again.Find(key); !ok || string(again.Bytes(at)) != string(value) {
				t.Fatalf("%q with %q became %q", text, key, out)
			}
			for _, m := range b.Members {
				if at, _ := again.Find(m.Key); m.Key != key && !bytes.Equal(again.Bytes(at), b.Bytes(m.Value)) {
					t.Fatalf("%q with %q became %q: %q is lost", text, key, out, m.Key)
				}
			}
		}
	})
}
