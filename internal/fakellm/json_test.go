package fakellm

import (
	"encoding/json"
	"reflect"
	"testing"
)

// gather reads an object with members.
func gather(b string) (map[string]string, error) {
	got := map[string]string{}
	err := members([]byte(b), func(key string, value []byte) { got[key] = string(value) })
	return got, err
}

func TestMembersAreFoundWhateverStandsInThem(t *testing.T) {
	for _, s := range []struct {
		what, body string
		want       map[string]string
	}{
		{"nothing", `{}`, map[string]string{}},
		{"blanks everywhere", " { \"a\" :\t1 ,\n\"b\" : [ 1 , 2 ] } \r\n", map[string]string{"a": "1", "b": "[ 1 , 2 ]"}},
		{"a byte order mark", "\xef\xbb\xbf{\"a\":null}", map[string]string{"a": "null"}},
		{"an escaped key", `{"mod\u0065l":"x"}`, map[string]string{"model": `"x"`}},
		{"braces and quotes in strings", `{"a":"}\"{,:","b":true}`, map[string]string{"a": `"}\"{,:"`, "b": "true"}},
		{"a string that ends in backslashes", `{"a":"\\\\","b":1}`, map[string]string{"a": `"\\\\"`, "b": "1"}},
		{"a string within depth", `{"a":[{"b":"]}"}],"c":-1.5e3}`, map[string]string{"a": `[{"b":"]}"}]`, "c": "-1.5e3"}},
		{"only the top level", `{"a":{"model":"no"},"model":"yes"}`, map[string]string{"a": `{"model":"no"}`, "model": `"yes"`}},
		{"the last of two", `{"a":1,"a":2}`, map[string]string{"a": "2"}},
	} {
		t.Run(s.what, func(t *testing.T) {
			got, err := gather(s.body)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, s.want) {
				t.Errorf("got %v, want %v", got, s.want)
			}
		})
	}
}

func TestWhatIsNoObjectIsAnError(t *testing.T) {
	for _, body := range []string{
		``, ` `, `[]`, `"x"`, `null`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, `{1:1}`,
		`{"a":}`, `{"a":"x}`, `{"a":[1}`, `{"a":1}}`, `{"a":1} {}`, `{"a":nul}`, `{"a":1 "b":2}`, `{,}`, `{"a":"\"}`,
	} {
		if got, err := gather(body); err == nil {
			t.Errorf("%s was read as %v", body, got)
		}
	}
}

func TestStringsAreQuotedAsJSONWantsIt(t *testing.T) {
	for _, s := range []string{"", "plain", "é 🙂", "a\"b", `a\b`, "line\nline", "\x00", "</script>"} {
		var got string
		if err := json.Unmarshal(appendString(nil, s), &got); err != nil || got != s {
			t.Errorf("%q came back as %q: %v", s, got, err)
		}
	}
}

func FuzzMembersAgreeWithTheStandardLibrary(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1}`, `{"a":{"b":[1,"]"]},"c":"\\"}`, `{"a":"\u0061"}`, `{"a":1}x`, ` {"":0} `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var want map[string]json.RawMessage
		if len(b) > 0 && b[0] == 0xef || json.Unmarshal(b, &want) != nil || want == nil {
			_, _ = gather(string(b)) // it must not panic
			return
		}
		got, err := gather(string(b))
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		for key, value := range want {
			if got[key] != string(value) && json.Valid([]byte(key)) {
				t.Errorf("%s: %q = %s, want %s", b, key, got[key], value)
			}
		}
	})
}
