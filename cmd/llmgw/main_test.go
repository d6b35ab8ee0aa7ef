package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// called runs a command line and returns its exit code and what it wrote.
func called(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(args, streams{strings.NewReader(""), &out, &errs})
	return code, out.String(), errs.String()
}

func TestWrongUsageIsToldAndNothingRuns(t *testing.T) {
	for _, s := range []struct {
		args string
		code int
		err  string
	}{
		{"serve --config", exitUsage, "flag needs an argument: -config"},
		{"serve --admin-listen 127.0.0.1:0 --listen", exitUsage, "flag needs an argument: -listen"},
		{"serve --log-level loud", exitUsage, "loud"},
		{"estimate body.json --model", exitUsage, "flag needs an argument: -model"},
		{"check a.yaml b.yaml", exitUsage, "wrong number of arguments"},
		{"key new search", exitUsage, "wrong number of arguments"},
		{"provider --rpm -1", exitProblem, "must not be negative"},
		{"provider --window -1s", exitProblem, "must not be negative"},
		{"provider --script sim-nonsense", exitProblem, "nonsense"},
		{"simulate --nodes 0", exitProblem, "1 to 1000 nodes"},
		{"simulate --limit 9223372036854775807", exitProblem, "1 to 1000000"},
		{"simulate --large 70000", exitProblem, "never fits"},
		{"simulate --pressure -1", exitProblem, "0 to 10 times"},
		{"simulate --runs 0s", exitProblem, "at least 1"},
		{"simulate --policy none", exitProblem, "not open, closed or local"},
		{"simulate --sync 20", exitProblem, "not a duration"},
		{"help nonsense", exitUsage, `there is no command "nonsense"`},
	} {
		code, out, errs := called(t, strings.Fields(s.args)...)
		if code != s.code || !strings.Contains(errs, s.err) || out != "" {
			t.Errorf("llmgw %s: got code %d, stdout %q, stderr %q, want code %d and %q", s.args, code, out, errs, s.code, s.err)
		}
	}
}

func TestSimulatePrintsTablesForTheNumbersGiven(t *testing.T) {
	code, out, errs := called(t, strings.Fields("simulate --nodes 2 --limit 10 --load 50 --policy local --tpm 6000 --large 5000 --reserve 100 --use 50")...)
	if code != exitOK || errs != "" {
		t.Fatalf("got code %d, stderr %q", code, errs)
	}
	for _, want := range []string{
		"limit 10/s", "5000 of 6000 tokens/min", "fixed window of 60 s  ", " 98.3 %", "2 nodes, limit 10/s, load 50/s", "when_store_down: local  ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the tables lack %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "when_store_down: open") {
		t.Errorf("a policy that was not asked for:\n%s", out)
	}
}

func TestAnEstimateIsShownWholeToPeopleToo(t *testing.T) {
	body := filepath.Join(t.TempDir(), "body.json")
	if err := os.WriteFile(body, []byte(`{"model":"gpt-4o","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, table, _ := called(t, "estimate", body)
	shown := map[string]string{}
	for line := range strings.Lines(table) {
		if cells := strings.Fields(line); len(cells) == 2 {
			shown[cells[0]] = cells[1]
		}
	}
	_, out, _ := called(t, "estimate", "--json", body)
	var told map[string]any
	if err := json.Unmarshal([]byte(out), &told); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	maps.Copy(told, told["parts"].(map[string]any))
	delete(told, "parts")
	for name, value := range told {
		if got, want := shown[name], fmt.Sprint(value); got != want {
			t.Errorf("%s: got %q, want %q of\n%s", name, got, want, out)
		}
	}
	if len(told) != 10 || len(shown) != len(told) {
		t.Errorf("got\n%s and\n%s", table, out)
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	_, overview, _ := called(t, "help")
	for _, c := range commands() {
		if !strings.Contains(overview, c.synopsis()+"\n") {
			t.Errorf("llmgw help does not list %q", c.synopsis())
		}
		for _, args := range [][]string{{c.name, "--help"}, {c.name, "-h"}, {"help", c.name}} {
			code, out, errs := called(t, args...)
			if code != exitOK || !strings.HasPrefix(out, "usage: "+c.synopsis()+"\n") || errs != "" {
				t.Errorf("llmgw %s: got code %d, stdout %q, stderr %q", strings.Join(args, " "), code, out, errs)
			}
		}
	}
}

func TestFlagsStandBeforeAndBehindArguments(t *testing.T) {
	for _, s := range []struct{ args, want string }{
		{"body.json --json --model m", "--json --model m -- body.json"},
		{"--model m body.json", "--model m -- body.json"},
		{"--model=m -", "--model=m -- -"},
		{"body.json --model", "--model"},
		{"--json -- --model", "--json -- --model"},
	} {
		f := flags("estimate", streams{})
		f.String("model", "", "")
		f.Bool("json", false, "")
		if got := strings.Join(flagsFirst(f, strings.Fields(s.args)), " "); got != s.want {
			t.Errorf("%s: got %s, want %s", s.args, got, s.want)
		}
	}
}

func TestATakenAddressNamesTheFlagsThatChooseAnother(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	code, _, errs := called(t, "serve", "--listen", l.Addr().String(), "--admin-listen", "127.0.0.1:0")
	if code != exitProblem || !strings.Contains(errs, l.Addr().String()) || !strings.Contains(errs, "--listen and --admin-listen") {
		t.Errorf("got code %d, %q", code, errs)
	}
}

func TestServeFindsItsConfiguration(t *testing.T) {
	for _, s := range []struct {
		what, named, variable string
		local                 bool
		want                  string
	}{
		{"none is there", "", "", false, ""},
		{"one lies in the working directory", "", "", true, "llmgw.yaml"},
		{"the variable names one", "", "b.yaml", true, "b.yaml"},
		{"the command line names one", "a.yaml", "b.yaml", true, "a.yaml"},
	} {
		t.Run(s.what, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("LLMGW_CONFIG", s.variable)
			if s.local {
				if err := os.WriteFile("llmgw.yaml", nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := configFile(s.named); got != s.want {
				t.Errorf("got %q, want %q", got, s.want)
			}
		})
	}
}

func TestServeTakesItsFileAsAnArgumentAndItsAddressesFromTheEnvironment(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("LLMGW_LISTEN", l.Addr().String())
	t.Setenv("LLMGW_ADMIN_LISTEN", "127.0.0.1:0")
	file := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(file, []byte("server: {listen: 127.0.0.1:0}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := called(t, "serve", file)
	if code != exitProblem || !strings.Contains(errs, l.Addr().String()+": bind: address already in use") {
		t.Errorf("got code %d, %q, want the address of LLMGW_LISTEN in use", code, errs)
	}
	if code, _, errs := called(t, "serve", "missing.yaml"); code != exitProblem || !strings.Contains(errs, "missing.yaml") {
		t.Errorf("got code %d, %q", code, errs)
	}
	if code, _, errs := called(t, "serve", "a.yaml", "--config", "b.yaml"); code != exitUsage || !strings.Contains(errs, "named twice") {
		t.Errorf("got code %d, %q", code, errs)
	}
}
