package tenant

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"llmgw/internal/fault"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func TestABlockIsReadFromAnOperatorsWish(t *testing.T) {
	in := noon.Add
	for _, s := range []struct {
		what, body string
		want       Block
	}{
		{"for ever", `{"scope":"team","value":"search","reason":"spent"}`, Block{Scope: BlockTeam, Value: "search", Reason: "spent"}},
		{"for a time", `{"scope":"key","value":"k","ttl":"90m"}`, Block{Scope: BlockKey, Value: "k", ExpiresAt: in(90 * time.Minute)}},
		{"for seconds", `{"scope":"key","value":"k","ttl":60}`, Block{Scope: BlockKey, Value: "k", ExpiresAt: in(time.Minute)}},
		{"until", `{"scope":"user","value":"ü","expires_at":"2026-11-29T13:00:00Z","ttl":null}`, Block{Scope: BlockUser, Value: "ü", ExpiresAt: in(time.Hour)}},
		{"an address", `{"scope":"ip","value":"::ffff:10.0.0.1"}`, Block{Scope: BlockIP, Value: "10.0.0.1"}},
		{"a network", `{"scope":"ip","value":"10.1.2.3/8"}`, Block{Scope: BlockIP, Value: "10.0.0.0/8"}},
		{"a network of IPv6", `{"scope":"ip","value":"2001:db8:0::1/48"}`, Block{Scope: BlockIP, Value: "2001:db8::/48"}},
		{"a small network of IPv6", `{"scope":"ip","value":"2001:db8::/112"}`, Block{Scope: BlockIP, Value: "2001:db8::/112"}},
		{"all of IPv4, in IPv6", `{"scope":"ip","value":"::ffff:0:0/96"}`, Block{Scope: BlockIP, Value: "0.0.0.0/0"}},
		{"a reason of all the length there is", `{"scope":"key","value":"k","reason":"` + strings.Repeat("x", 1024) + `"}`, Block{Scope: BlockKey, Value: "k", Reason: strings.Repeat("x", 1024)}},
		{"an id is not theirs to choose", `{"id":"x","scope":"key","value":"k"}`, Block{Scope: BlockKey, Value: "k"}},
	} {
		got, _, err := ParseBlock([]byte(s.body), noon)
		if err != nil || got.Scope != s.want.Scope || got.Value != s.want.Value || got.Reason != s.want.Reason || got.ID != "" || !got.ExpiresAt.Equal(s.want.ExpiresAt) {
			t.Errorf("%s: got %+v, %v, want %+v", s.what, got, err, s.want)
		}
	}
}

func TestABlockThatCannotBeNamesTheField(t *testing.T) {
	for _, s := range []struct{ what, body, param string }{
		{"no JSON", `{`, ""},
		{"a list", `[]`, ""},
		{"no scope", `{"value":"x"}`, "scope"},
		{"an unknown scope", `{"scope":"model","value":"x"}`, "scope"},
		{"an unknown field", `{"scope":"key","value":"x","tll":"1h"}`, "tll"},
		{"something behind it", `{"scope":"key","value":"x"} {}`, ""},
		{"a scope that is a number", `{"scope":1,"value":"x"}`, "scope"},
		{"no value", `{"scope":"key"}`, "value"},
		{"a value of spaces", `{"scope":"user","value":" \t"}`, "value"},
		{"a value too long", `{"scope":"key","value":"` + strings.Repeat("x", 1025) + `"}`, "value"},
		{"a value that is no text", `{"scope":"key","value":[]}`, "value"},
		{"a reason too long", `{"scope":"key","value":"x","reason":"` + strings.Repeat("x", 1025) + `"}`, "reason"},
		{"no address", `{"scope":"ip","value":"localhost"}`, "value"},
		{"an address with octal digits", `{"scope":"ip","value":"010.0.0.1"}`, "value"},
		{"an address with a port", `{"scope":"ip","value":"10.0.0.1:80"}`, "value"},
		{"half an address, by force", `{"scope":"ip","value":"10.0.0","force":true}`, "value"},
		{"more than IPv4 in IPv6", `{"scope":"ip","value":"::ffff:0:0/95"}`, "value"},
		{"a force that is no switch", `{"scope":"key","value":"x","force":"yes"}`, "force"},
		{"no network", `{"scope":"ip","value":"10.0.0.0/33"}`, "value"},
		{"two ends", `{"scope":"key","value":"x","ttl":"1h","expires_at":"2026-11-29T13:00:00Z"}`, "ttl"},
		{"an end in the past", `{"scope":"key","value":"x","expires_at":"2026-11-29T11:00:00Z"}`, "expires_at"},
		{"an end at the beginning of all time", `{"scope":"key","value":"x","expires_at":"0001-01-01T00:00:00Z"}`, "expires_at"},
		{"an end now", `{"scope":"key","value":"x","expires_at":"2026-11-29T12:00:00Z"}`, "expires_at"},
		{"an end that is no time", `{"scope":"key","value":"x","expires_at":"tomorrow"}`, "expires_at"},
		{"no time at all", `{"scope":"key","value":"x","ttl":"0s"}`, "ttl"},
		{"less than none", `{"scope":"key","value":"x","ttl":-5}`, "ttl"},
		{"a time without a unit", `{"scope":"key","value":"x","ttl":"5"}`, "ttl"},
		{"a time beyond all", `{"scope":"key","value":"x","ttl":99999999999999}`, "ttl"},
		{"a time of another kind", `{"scope":"key","value":"x","ttl":{}}`, "ttl"},
	} {
		_, _, err := ParseBlock([]byte(s.body), noon)
		f, ok := errors.AsType[*fault.Error](err)
		if !ok || f.Code != fault.InvalidRequest || f.Param != s.param || f.Message == "" {
			t.Errorf("%s: got %v, want an invalid request about %q", s.what, err, s.param)
		}
	}
}

func TestABlockIsWrittenAsTheAdminPlaneSays(t *testing.T) {
	for _, s := range []struct {
		b    Block
		want string
	}{
		{Block{ID: "blk_1", Scope: BlockIP, Value: "10.0.0.0/8"}, `{"id":"blk_1","scope":"ip","value":"10.0.0.0/8"}`},
		{Block{"blk_2", BlockKey, "k", "lost", noon}, `{"id":"blk_2","scope":"key","value":"k","reason":"lost","expires_at":"2026-11-29T12:00:00Z"}`},
	} {
		got, err := json.Marshal(s.b)
		if err != nil || string(got) != s.want {
			t.Errorf("got %s, %v, want %s", got, err, s.want)
		}
	}
}
