package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// written writes a configuration whose one key and provider need a variable.
func written(t *testing.T, amount string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "llmgw.yaml")
	text := `
providers: [{name: p, dialect: openai, base_url: https://api.openai.com/v1, api_keys: ["${PROVIDER_KEY}"]}]
models: [{name: m, targets: [{provider: p}]}]
teams:
  - {name: search, limits: [{name: tpm, unit: tokens, amount: ` + amount + `, per: 10m}], keys: [{id: k, sha256: "${KEY_HASH}"}]}
  - {name: empty, limits: [{name: tpm, unit: tokens, amount: 50k, per: quarter}]}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCheckNeedsNoSecrets(t *testing.T) {
	file := written(t, "100k")
	if code, _, errs := called(t, "check", file); code != exitProblem || !strings.Contains(errs, "PROVIDER_KEY") {
		t.Errorf("without secrets: got code %d, %s", code, errs)
	}
	code, out, errs := called(t, "check", "--allow-missing-env", file)
	if code != exitOK || errs != "" || !strings.Contains(out, "team/search/tpm") || !strings.Contains(out, "(no key)") {
		t.Errorf("got code %d, %s%s", code, out, errs)
	}
	env := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(env, []byte("# secrets\nPROVIDER_KEY=\"sk-1\"\nexport KEY_HASH="+strings.Repeat("1f0c2a90", 8)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := called(t, "check", "--env-file", env, file); code != exitOK || errs != "" {
		t.Errorf("with --env-file: got code %d, %s", code, errs)
	}
}

func TestCheckPrintsJSON(t *testing.T) {
	var report struct {
		Valid  bool
		Errors []struct {
			Line    int
			Message string
		}
		Keys []struct {
			Key, Team string
			Limits    []struct {
				Limit, Per, Algorithm string
				Amount                float64
			}
		}
	}
	code, out, _ := called(t, "check", "--json", "--allow-missing-env", written(t, "100k"))
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitOK || !report.Valid || len(report.Keys) != 2 {
		t.Fatalf("got code %d, %v, %s", code, err, out)
	}
	if l := report.Keys[0].Limits[0]; l.Limit != "team/search/tpm" || l.Amount != 100_000 || l.Per != "10m" || l.Algorithm != "token_bucket" {
		t.Errorf("got %+v", l)
	}
	code, out, _ = called(t, "check", "--json", written(t, "many"))
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitProblem || report.Valid || len(report.Errors) != 3 || report.Errors[1].Line == 0 {
		t.Errorf("with mistakes: got code %d, %v, %s", code, err, out)
	}
}

func TestCheckTellsHowAGatewayDiffers(t *testing.T) {
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/admin/v1/teams" || r.Header.Get("Authorization") != "Bearer t0ken" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"teams":[
			{"name":"search","keys":["k"],"limits":[{"scope":"team","owner":"search","name":"tpm","unit":"tokens","configured":50000,"per":"10m","mode":"enforce"}]},
			{"name":"ads","keys":["a"],"limits":[]}]}`)
	}))
	defer gateway.Close()
	t.Setenv("LLMGW_ADMIN_TOKEN", "t0ken")
	code, out, errs := called(t, "check", "--allow-missing-env", "--diff", "--admin", gateway.URL, written(t, "100k"))
	const want = "- key ads/a\n+ limit team empty tpm tokens 50000/quarter enforce\n~ limit team search tpm tokens 50000/10m enforce -> tokens 100000/10m enforce\n- team ads\n+ team empty\n"
	if code != exitOK || errs != "" || out != want {
		t.Errorf("got code %d, %s\n%swant\n%s", code, errs, out, want)
	}
	if code, _, _ := called(t, "check", "--diff", written(t, "100k")); code != exitUsage {
		t.Errorf("--diff without --admin: got code %d", code)
	}
	t.Setenv("LLMGW_ADMIN_TOKEN", "wrong")
	if code, _, errs := called(t, "check", "--allow-missing-env", "--diff", "--admin", gateway.URL, written(t, "100k")); code != exitProblem || !strings.Contains(errs, "401") {
		t.Errorf("with a wrong token: got code %d, %s", code, errs)
	}
}

func TestTheSchemaIsPrinted(t *testing.T) {
	code, out, errs := called(t, "schema")
	var s struct{ Properties map[string]any }
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != exitOK || errs != "" || s.Properties["teams"] == nil {
		t.Errorf("got code %d, %v, %s", code, err, errs)
	}
}
