package app

import (
	"encoding/json"
	"strings"
	"testing"

	"llmgw/internal/gatewaytest"
)

func TestAKeyThatIsMovedToTheFileIsTheFiles(t *testing.T) {
	r := run(t, ", admin_token: "+adminToken)
	var made struct{ Secret string }
	a := r.admin("POST", "/admin/v1/keys", `{"team":"t","id":"made"}`)
	if err := json.Unmarshal([]byte(a.body), &made); a.StatusCode != 201 || err != nil {
		t.Fatalf("got %d %s", a.StatusCode, a.body)
	}
	r.admin("POST", "/admin/v1/keys", `{"team":"t","id":"other"}`)
	r.change("keys: [{id: k", "keys: [{id: moved, sha256: "+gatewaytest.SHA256(made.Secret)+"}, {id: k")
	if a := r.admin("POST", "/admin/v1/reload", ""); a.StatusCode != 200 {
		t.Fatalf("got %d %s", a.StatusCode, a.body)
	}
	if a := r.admin("GET", "/admin/v1/keys", ""); !strings.Contains(a.body, `"id":"moved","team":"t","source":"file"`) {
		t.Errorf("got %s", a.body)
	}
	if a := r.admin("DELETE", "/admin/v1/keys/made", ""); a.StatusCode != 204 {
		t.Errorf("got %d %s", a.StatusCode, a.body)
	}
	if a := r.admin("PATCH", "/admin/v1/keys/other", `{"note":"changes go on"}`); a.StatusCode != 200 {
		t.Errorf("got %d %s", a.StatusCode, a.body)
	}
}
