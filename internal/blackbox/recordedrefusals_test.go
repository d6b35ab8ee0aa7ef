package blackbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// recordedRefusal is a refusal as real clients have read it.
type recordedRefusal struct {
	HTTP struct {
		Status      int
		ContentType string `json:"content_type"`
		Headers     map[string]string
	}
	body any
}

// refusalOf reads a recording; false if there is none.
func refusalOf(t *testing.T, dialect, kind string) (r recordedRefusal, ok bool) {
	t.Helper()
	file := filepath.Join(fixtures(), "deny-"+dialect+"-"+kind)
	expect, err := os.ReadFile(file + ".expect.json")
	if os.IsNotExist(err) {
		return r, false
	}
	if err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(file + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(expect, &r); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &r.body); err != nil {
		t.Fatal(err)
	}
	return r, true
}

// lacks names what of a document has no counterpart of its type in another, or
// is empty. Elements of a list may stand in any order.
func lacks(want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("an object, not %v", got)
		}
		for name, value := range want {
			if missing := lacks(value, object[name]); missing != "" {
				return name + ": " + missing
			}
		}
	case []any:
		list, _ := got.([]any)
		for _, element := range want {
			found := false
			for _, other := range list {
				found = found || lacks(element, other) == ""
			}
			if !found {
				return fmt.Sprintf("%v", element)
			}
		}
	case nil:
	default:
		if got != nil && reflect.TypeOf(got) != reflect.TypeOf(want) {
			return fmt.Sprintf("a %T such as %v, not %v", want, want, got)
		}
		if kind, ok := want.(string); ok && strings.HasPrefix(kind, "type.googleapis.com/") && got != want {
			return kind
		}
	}
	return ""
}

// TestARefusalHasTheShapeThatRealClientsHaveRead compares the gateway's own
// refusals with the recorded ones, member by member and header by header.
func TestARefusalHasTheShapeThatRealClientsHaveRead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(document))
	t.Cleanup(server.Close)
	list, targets := providers("any", server.URL, "")
	w := start(t, setup{providers: list, models: "{name: wait, " + targets + ", limits: [{name: l, unit: tokens, amount: 6000, per: minute, start: empty}]}\n" +
		"{name: spent, " + targets + ", limits: [" + monthly("l", "requests", 1) + "]}\n" +
		"{name: too-large, " + targets + ", limits: [{name: l, unit: tokens, amount: 20, per: minute}]}"})
	compared := 0
	for _, kind := range []string{"wait", "spent", "too-large"} {
		for _, call := range spoken {
			recorded, ok := refusalOf(t, call.dialect, kind)
			if !ok {
				continue
			}
			compared++
			path, body := strings.ReplaceAll(call.path, "{}", kind), strings.ReplaceAll(call.body, "{}", kind)
			if kind == "spent" {
				w.Post(secret, path, body)
			}
			a := w.Post(secret, path, body)
			what := call.dialect + ", " + kind
			status := recorded.HTTP.Status
			if status == http.StatusPaymentRequired { // of AWS's API: one table has the status of all
				status = http.StatusTooManyRequests
			}
			if a.Status != status || a.Header.Get("Content-Type") != recorded.HTTP.ContentType {
				t.Errorf("%s: got %d %s, want %d %s", what, a.Status, a.Header.Get("Content-Type"), status, recorded.HTTP.ContentType)
			}
			for name, value := range recorded.HTTP.Headers {
				got := a.Header.Get(name)
				if fixed := name == "x-should-retry" || name == "x-amzn-errortype"; got == "" || fixed && got != value {
					t.Errorf("%s: %s is %q, want one such as %q", what, name, got, value)
				}
			}
			if _, told := recorded.HTTP.Headers["retry-after"]; told != (a.Header.Get("Retry-After") != "") {
				t.Errorf("%s: Retry-After is %q", what, a.Header.Get("Retry-After"))
			}
			var got any
			if err := json.Unmarshal([]byte(a.Body), &got); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if missing := lacks(recorded.body, got); missing != "" {
				t.Errorf("%s: %s lacks %s", what, a.Body, missing)
			}
		}
	}
	if compared < 10 {
		t.Errorf("%d refusals were compared, want all that are recorded", compared)
	}
}
