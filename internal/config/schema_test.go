package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"llmgw/configs"
)

// compiled is the schema, as a validator takes it.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("llmgw.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("llmgw.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// valid is what the schema says to YAML.
func valid(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	plain, err := json.Marshal(named(tree))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

// named is a tree of YAML with texts for keys, as JSON has them.
func named(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		for k, v := range tree {
			tree[k] = named(v)
		}
	case map[any]any:
		names := map[string]any{}
		for k, v := range tree {
			names[fmt.Sprint(k)] = named(v)
		}
		return names
	case []any:
		for i, v := range tree {
			tree[i] = named(v)
		}
	}
	return tree
}

func TestTheSchemaTakesEveryExampleAndNoMistake(t *testing.T) {
	s := compiled(t)
	for name, text := range map[string]string{"the example": configs.Example(), "the built-in file": configs.Default()} {
		if err := valid(t, s, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"cluster.yaml", "providers.yaml", "redis.yaml", "single.yaml"} {
		text, err := os.ReadFile("../../configs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(t, s, string(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{
		"teems: []", "server: {listn: a}", "teams: {name: a}", "teams: [{name: a, limits: [{name: b, unti: tokens}]}]", "models: [{name: m, targets: [{provder: p}]}]", "store: memory",
	} {
		if err := valid(t, s, text); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

func TestTheSchemaHasTheExamplesComments(t *testing.T) {
	s, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"The longest that a call waits for its turn.", "Of every key."} {
		if !strings.Contains(string(text), want) {
			t.Errorf("nothing is described by %q", want)
		}
	}
}

func TestAFileIsCheckedWithoutItsSecrets(t *testing.T) {
	path := t.TempDir() + "/llmgw.yaml"
	text := "server: {admin_token: \"${TOKEN}\"}\nproviders: [{name: p, dialect: openai, base_url: https://api.openai.com, api_keys: [\"${A}\", \"${file:b}\"]}]\nmodels: [{name: m, targets: [{provider: p}]}]\nteams: [{name: t, keys: [{id: k, sha256: \"${K}\"}]}, {name: u, keys: [{id: l, sha256: \"${L}\"}]}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	none := func(string) (string, bool) { return "", false }
	if _, err := Load(path, none); err == nil {
		t.Error("secrets that are missing are no error")
	}
	c, err := LoadWithoutSecrets(path, none)
	if err != nil {
		t.Fatal(err)
	}
	r := ReportOf(c, nil)
	var said []string
	for _, w := range r.Warnings {
		said = append(said, w.Message)
	}
	for _, want := range []string{"a base URL that ends in /v1", `nothing limits the team "t"`, `nothing limits the team "u"`} {
		if !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("the warnings lack %q: %q", want, said)
		}
	}
	if len(r.Keys) != 2 || !r.Valid {
		t.Errorf("got %+v", r)
	}
}
