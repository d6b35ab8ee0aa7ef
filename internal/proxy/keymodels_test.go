package proxy

import (
	"crypto/sha256"
	"strings"
	"testing"

	"llmgw/internal/tenant"
)

func TestAKeyMayUseItsOwnModelsAmongItsTeams(t *testing.T) {
	for _, s := range []struct {
		what      string
		team, key map[string]bool
		status    int
		message   string
	}{
		{"both name it", map[string]bool{"m": true}, map[string]bool{"m": true}, 200, ""},
		{"the key names it, the team all", nil, map[string]bool{"m": true}, 200, ""},
		{"the key names another", nil, map[string]bool{"n": true}, 403, `The key \"k\" may not use`},
		{"the key names it, the team another", map[string]bool{"n": true}, map[string]bool{"m": true}, 403, `Team \"t\" may not use`},
		{"the key names none", nil, map[string]bool{}, 403, `The key \"k\" may not use`},
	} {
		rules := func(r *Rules) {
			var err error
			r.Directory, err = tenant.NewDirectory([]tenant.Team{{Name: "t", Weight: 1, Models: s.team,
				Keys: []tenant.Key{{ID: "k", SHA256: sha256.Sum256([]byte(houseKey)), Models: s.key}}}})
			if err != nil {
				t.Fatal(err)
			}
		}
		inHouse(t, setting{rules: rules}, says("application/json", wholeChat), func(h *house) {
			got := h.ask("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`)
			if got.status != s.status || !strings.Contains(got.body, s.message) {
				t.Errorf("%s: got %d, want %d with %q\n%s", s.what, got.status, s.status, s.message, got.body)
			}
			listed := strings.Contains(h.ask("GET /v1/models", "").body, `"m"`)
			if want := s.status == 200; listed != want {
				t.Errorf("%s: the model is listed: %v, want %v", s.what, listed, want)
			}
		})
	}
}
