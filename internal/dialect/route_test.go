package dialect

import (
	"maps"
	"testing"
)

func TestAPathMatchesItsPatternAlone(t *testing.T) {
	for _, s := range []struct {
		pattern, path string
		ok            bool
		params        map[string]string
	}{
		{"/v1/chat/completions", "/v1/chat/completions", true, nil},
		{"/v1/chat/completions", "/v1/chat/completions/", false, nil},
		{"/v1/responses/:id/cancel", "/v1/responses/r1/cancel", true, map[string]string{"id": "r1"}},
		{"/v1/responses/:id/cancel", "/v1/responses/r1", false, nil},
		{"/v1/responses/:id/cancel", "/v1/responses//cancel", false, nil},
		{"/model/:model/converse", "/model/a%2Fb%3A0/converse", true, map[string]string{"model": "a/b:0"}},
		{"/model/:model/converse", "/model/a/b/converse", false, nil},
		{"/model/:model/converse", "/model/%zz/converse", true, map[string]string{"model": ""}},
		{"/models/:model:count", "/models/%zz:count", false, nil},
		{"/models/:model:count", "/models/m:count", true, map[string]string{"model": "m"}},
		{"/models/:model:count", "/models/m%3Acount", true, map[string]string{"model": "m"}},
		{"/models/:model:count", "/models/a:b:count", true, map[string]string{"model": "a:b"}},
		{"/models/:model:count", "/models/m:recount", false, nil},
		{"/models/:model:count", "/models/:count", true, map[string]string{"model": ""}},
		{"/models/:model:count", "/models/m", false, nil},
	} {
		params, ok := Match(s.pattern, s.path)
		if ok != s.ok || !maps.Equal(params, s.params) {
			t.Errorf("%s on %s: got %v, %v, want %v, %v", s.pattern, s.path, params, ok, s.params, s.ok)
		}
	}
}

func TestLikenessCountsTheSegmentsThatAPathBeginsWith(t *testing.T) {
	for _, s := range []struct {
		pattern, path string
		want          int
	}{
		{"/v1/messages", "/v1/messages/batches", 3},
		{"/v1/messages", "/v1/files", 2},
		{"/v1/messages", "/v2/files", 1},
		{"/model/:model/converse", "/model/x/delete", 3},
		{"/model/:model/converse", "/model", 2},
		{"/v1/messages", "", 1},
	} {
		if got := Likeness(s.pattern, s.path); got != s.want {
			t.Errorf("%s and %s: got %d, want %d", s.pattern, s.path, got, s.want)
		}
	}
}
