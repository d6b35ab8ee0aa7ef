package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"llmgw/internal/budget"
)

const tiers = providersAndModels + `
plans:
  - name: pro
    models: [m]
    limits:
      - {name: tpm, unit: tokens, amount: 400k, per: minute}
      - {name: monthly, unit: requests, amount: 500, per: month}
`

func TestATeamHasItsPlansLimitsAndItsOwn(t *testing.T) {
	c := mustParse(t, tiers+`
teams:
  - {name: search, plan: pro}
  - name: ads
    plan: pro
    models: [m, free]
    limits: [{name: slots, unit: concurrency, amount: 5}, {name: tpm, amount: 800k}]
    keys: [{id: k, plan: pro, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}]
`)
	for _, s := range []struct {
		got  []*budget.Limit
		want string
	}{
		{c.Teams[0].Limits, "team/search/tpm 400000 minute, team/search/monthly 500 month"},
		{c.Teams[1].Limits, "team/ads/slots 5 , team/ads/tpm 800000 minute, team/ads/monthly 500 month"},
		{c.Teams[1].Keys[0].Limits, "key/k/tpm 400000 minute, key/k/monthly 500 month"},
	} {
		var all []string
		for _, l := range s.got {
			all = append(all, fmt.Sprint(written(l), " ", l.Amount, " ", l.Period))
		}
		if got := strings.Join(all, ", "); got != s.want {
			t.Errorf("got %s, want %s", got, s.want)
		}
	}
	if got := c.Teams[0].Models; !slices.Equal(got, []string{"m"}) {
		t.Errorf("search: got the models %v, want those of its plan", got)
	}
	if got := c.Teams[1].Models; !slices.Equal(got, []string{"m", "free"}) {
		t.Errorf("ads: got the models %v, want its own", got)
	}
	if got := c.Teams[1].Keys[0].Models; !slices.Equal(got, []string{"m"}) {
		t.Errorf("key: got the models %v, want those of its plan", got)
	}
}

func TestWhatIsWrongWithAPlanIsSaidOnceAndWhereItStands(t *testing.T) {
	for _, s := range []struct{ what, src, want string }{
		{"an unknown plan", "plans: [{name: pro}]\nteams: [{name: a, plan: prp}]", `2:25: there is no plan "prp" (did you mean "pro"?)`},
		{"a plan twice", "plans: [{name: a}, {name: a}]", `1:27: "a" is already the name of a plan, at line 1`},
		{"a limit that cannot be", "plans: [{name: a, limits: [{name: x, unit: tokens, amount: 1}]}]\nteams: [{name: t, plan: a}, {name: u, plan: a}]",
			`1:28: a limit needs "per"`},
		{"a change that cannot be", "plans: [{name: a, limits: [{name: x, unit: tokens, amount: 1, per: hour}]}]\nteams: [{name: t, plan: a, limits: [{name: x, per: month, burst: 2}]}]",
			`2:59: algorithm: calendar has no use for "burst"`},
		{"a key that a plan has not", "plans: [{name: a, weight: 3}]", `1:19: unknown key "weight": here can be limits, models or name`},
		{"no list", "plans: 3", "1:8: this is a value where a list belongs"},
		{"no name", "teams: [{name: a, plan: [b]}]", "1:25: this is a list where a value belongs"},
	} {
		t.Run(s.what, func(t *testing.T) { checkProblems(t, problemsOf(t, s.src, Lookups{}), s.want) })
	}
}

// load puts files into a directory and loads the first.
func load(t *testing.T, files ...string) (*Config, string, error) {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(filepath.Join(dir, files[0]), os.LookupEnv)
	return c, dir, err
}

func TestFilesAreIncludedInTheOrderOfTheirNames(t *testing.T) {
	c, dir, err := load(t,
		"main.yaml", tiers+"include: [teams/*.yaml, more.yaml]\nteams: [{name: first}]\n",
		"teams/b.yaml", "teams: [{name: b, plan: small}]\n",
		"teams/a.yaml", "teams: [{name: a, plan: pro}]\n",
		"more.yaml", "plans: [{name: small, models: []}]\n",
		"teams/ignored.txt", "{",
	)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, team := range c.Teams {
		names = append(names, team.Name)
	}
	if !slices.Equal(names, []string{"first", "a", "b"}) {
		t.Errorf("got the teams %v", names)
	}
	if c.Teams[2].Models == nil || len(c.Teams[2].Models) != 0 {
		t.Errorf("got the models %v, want none: an included file's team takes another file's plan", c.Teams[2].Models)
	}
	var watched []string
	for _, f := range c.Files {
		watched = append(watched, strings.TrimPrefix(f.Path, dir+"/"))
	}
	for _, want := range []string{"main.yaml", "teams", "teams/a.yaml", "teams/b.yaml", "more.yaml"} {
		if !slices.Contains(watched, want) {
			t.Errorf("%s is not watched, only %v", want, watched)
		}
	}
}

func TestAnErrorNamesTheIncludedFile(t *testing.T) {
	for _, s := range []struct{ what, include, part, want string }{
		{"a value", "teams: [{name: a}]", "teams: [{name: b, weight: many}]", `part.yaml:1:27: "many" is not a whole number`},
		{"a name that is taken", "teams: [{name: a}]", "teams:\n- {name: a}", `part.yaml:2:10: "a" is already the name of a team, at main.yaml:2`},
		{"a key that cannot be here", "", "server: {listen: \":1\"}", `part.yaml:1:1: an included file has no "server": it can have models, plans or teams`},
		{"no list", "", "teams: {}", `part.yaml:1:8: this is an object where a list belongs`},
		{"no YAML", "", "teams: [", `part.yaml:`},
		{"nothing", "", "", `part.yaml:1:1: YAML: the file is empty`},
		{"an unset variable", "", "teams: [{name: \"${NEVER_SET_ANYWHERE}\"}]", `part.yaml:1:16: the environment variable NEVER_SET_ANYWHERE is not set`},
	} {
		t.Run(s.what, func(t *testing.T) {
			_, dir, err := load(t, "main.yaml", "include: [part.yaml]\n"+s.include, "part.yaml", s.part)
			if err == nil {
				t.Fatal("it was taken")
			}
			got := strings.ReplaceAll(err.Error(), dir+"/", "")
			if !strings.Contains(got, strings.TrimSuffix(s.want, "YAML: the file is empty")) {
				t.Errorf("got %s\nwant %s", got, s.want)
			}
		})
	}
	_, dir, err := load(t, "main.yaml", "include: [missing.yaml]")
	if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), dir+"/", ""), `main.yaml:1:11: "missing.yaml": no such file or directory`) {
		t.Errorf("a file that is not there: got %v", err)
	}
	if _, _, err := load(t, "main.yaml", "include: [none/*.yaml]"); err != nil {
		t.Errorf("a pattern without files: got %v", err)
	}
}

// moved reports whether one of files is no longer as it was.
func moved(files []File) bool {
	return slices.ContainsFunc(files, func(f File) bool { return Stat(f.Path) != f })
}

func TestWhatWouldChangeAConfigurationIsWatched(t *testing.T) {
	for _, s := range []struct {
		what, include string
		change        func(t *testing.T, dir string)
	}{
		{"a broken file is corrected", "[broken.yaml]", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "broken.yaml"), "teams: [{name: corrected}]")
		}},
		{"a file that is missing comes", "[missing.yaml]", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "missing.yaml"), "teams: [{name: found}]")
		}},
		{"a file comes into a directory", "[teams/*/limits.yaml]", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "teams", "empty", "limits.yaml"), "teams: [{name: late}]")
		}},
		{"a file goes", "[teams/*/limits.yaml]", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "teams", "search", "limits.yaml")); err != nil {
				t.Fatal(err)
			}
		}},
		{"a directory comes", "[teams/*/limits.yaml]", func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, "teams", "new"), 0o700); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(s.what, func(t *testing.T) {
			_, dir, _ := load(t, "main.yaml", "include: "+s.include, "broken.yaml", "teams: [",
				"teams/search/limits.yaml", "teams: [{name: search}]", "teams/empty/notes", "")
			_, files, _ := LoadAfter(filepath.Join(dir, "main.yaml"), os.LookupEnv, 0)
			if moved(files) {
				t.Error("a change was seen before there was one")
			}
			afterTheClock(t)
			s.change(t, dir)
			if !moved(files) {
				t.Errorf("the change is not seen in %+v", files)
			}
		})
	}
}

// afterTheClock returns when files get other times than before: a file
// system's clock has ticks of some milliseconds.
func afterTheClock(t *testing.T) {
	t.Helper()
	probe := filepath.Join(t.TempDir(), "probe")
	write(t, probe, "")
	for first := Stat(probe).Changed.UnixMilli(); Stat(probe).Changed.UnixMilli() == first; {
		write(t, probe, "")
	}
}

// Gateways compare Versions when they start: without the file that went, this one
// would be as old as before it came.
func TestAConfigurationWithoutAFileThatWentIsNewer(t *testing.T) {
	_, dir, err := load(t, "main.yaml", "include: [teams/*/*.yaml]",
		"teams/a/a.yaml", "teams: [{name: a}]", "teams/b/b.yaml", "teams: [{name: b}]")
	if err != nil {
		t.Fatal(err)
	}
	version := func() int64 {
		c, err := Load(filepath.Join(dir, "main.yaml"), os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		return c.Version
	}
	before := version()
	afterTheClock(t)
	write(t, filepath.Join(dir, "llmgw.db"), "")
	if got := version(); got != before {
		t.Errorf("the books beside the configuration made it newer by %d ms", got-before)
	}
	if err := os.RemoveAll(filepath.Join(dir, "teams", "b")); err != nil {
		t.Fatal(err)
	}
	if got := version(); got <= before {
		t.Errorf("got the version %d, want more than %d", got, before)
	}
}

func TestASecretOfAnIncludedFileIsBesideIt(t *testing.T) {
	c, _, err := load(t,
		"main.yaml", "include: [teams/a.yaml]",
		"teams/a.yaml", "teams: [{name: a, keys: [{id: k, sha256: \"${file:hash}\"}]}]",
		"teams/hash", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n",
	)
	if err != nil {
		t.Fatal(err)
	}
	if c.Teams[0].Keys[0].SHA256 != mustHash("test") {
		t.Error("another secret was read")
	}
}
