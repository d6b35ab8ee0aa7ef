package blackbox

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"llmgw/internal/gatewaytest"
)

// command runs the binary and returns its exit code and what it wrote.
func command(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, gatewaytest.Binary(t), args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	_ = cmd.Run() // the exit code tells
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const brokenConfig = "server:\n  lissten: :1\nteams:\n  - name: t\n    limits: [{name: a, unit: tokenz, amount: 1, per: day}]\n"

func TestCommandsTellByTheirExitCode(t *testing.T) {
	t.Parallel()
	request := file(t, "body.json", `{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}],"max_tokens":92}`)
	broken := file(t, "broken.yaml", brokenConfig)
	for _, s := range []struct {
		args  string
		stdin string
		code  int
		out   string // contained in stdout; empty: stdout is empty
		err   string // contained in stderr
	}{
		{args: "", code: 2, err: "usage: llmgw"},
		{args: "help", out: "usage: llmgw"},
		{args: "--help", out: "usage: llmgw"},
		{args: "serve --help", out: "-admin-listen"},
		{args: "check --help", out: "usage: llmgw check"},
		{args: "key new --help", out: "-team"},
		{args: "estimate --help", out: "-json"},
		{args: "provider --help", out: "nousage"},
		{args: "version --help", out: "usage: llmgw version"},
		{args: "version", out: "go1."},
		{args: "nothing", code: 2, err: "nothing"},
		{args: "serve --nothing", code: 2, err: "nothing"},
		{args: "check", code: 2, err: "arguments"},
		{args: "check " + broken, code: 1, err: "broken.yaml:2:3: "},
		{args: "check /does/not/exist", code: 1, err: "exist"},
		{args: "serve --config " + broken, code: 1, err: "broken.yaml:5:30: "},
		{args: "key new", code: 2, err: "--team"},
		{args: "key old --team t", code: 2, err: "new"},
		{args: "key new --team t --id i", out: "- {id: i, sha256: ", err: "once"},
		{args: "estimate --json " + request, out: `"total_tokens":100`},
		{args: "estimate " + request + " --json", out: `"total_tokens":100`},
		{args: "estimate --json", stdin: `{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}],"max_tokens":92}`, out: `"input_tokens":8,"output_tokens":92,`},
		{args: "estimate --json --path /v1beta/models/m:generateContent", stdin: geminiBody, out: `"output_tokens":100`},
		{args: "estimate --json --path /model/m/converse", stdin: `{"messages":[]}`, out: `"total_tokens":`},
		{args: "estimate --json --path /v1/nothing", stdin: `{}`, code: 1, err: "/v1/nothing"},
		{args: "estimate", stdin: `{"model":`, code: 1, err: "JSON"},
	} {
		code, out, errs := command(t, s.stdin, strings.Fields(s.args)...)
		if code != s.code {
			t.Errorf("llmgw %s: got exit code %d, want %d\n%s%s", s.args, code, s.code, out, errs)
		}
		if !strings.Contains(out, s.out) || (s.out == "") != (out == "") {
			t.Errorf("llmgw %s: got stdout %q, want %q in it", s.args, out, s.out)
		}
		if !strings.Contains(errs, s.err) || s.err == "" && errs != "" {
			t.Errorf("llmgw %s: got stderr %q, want %q in it", s.args, errs, s.err)
		}
	}
}

func TestANewKeyIsTheOneThatItsLineHashes(t *testing.T) {
	t.Parallel()
	_, out, _ := command(t, "", "key", "new", "--team", "search")
	m := regexp.MustCompile(`^key: (sk-llmgw-\S{32,})\n- \{id: (search-\S+), sha256: ([0-9a-f]{64})\}\n$`).FindStringSubmatch(out)
	if m == nil || gatewaytest.SHA256(m[1]) != m[3] {
		t.Errorf("got %q", out)
	}
	if _, again, _ := command(t, "", "key", "new", "--team", "search"); again == out {
		t.Error("two keys are the same")
	}
}

func TestTheEmbeddedDefaultGreetsWithACallThatWorks(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(gatewaytest.Binary(t), "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	var text []byte
	for buf := make([]byte, 4096); !bytes.Contains(text, []byte("/dashboard")); {
		n, err := out.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q\n%s", err, text, errs.String())
		}
		text = append(text, buf[:n]...)
	}
	if !bytes.Contains(text, []byte("THIS IS THE DEMO")) {
		t.Errorf("the demo does not say that it is one: %q", text)
	}
	line := regexp.MustCompile(`(?m)^\s*(curl .*)$`).FindSubmatch(text)
	if line == nil {
		t.Fatalf("no curl in %q", text)
	}
	answer, err := exec.Command("sh", "-c", string(line[1])+" -sS --fail-with-body").CombinedOutput()
	if err != nil || !json.Valid(answer) || !bytes.Contains(answer, []byte(`"chat.completion"`)) {
		t.Errorf("%s: %v\n%s", line[1], err, answer)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	go func() { stopped <- cmd.Wait() }()
	select {
	case err := <-stopped:
		if err != nil {
			t.Errorf("it ended with %v\n%s", err, errs.String())
		}
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill() // the test has failed
		t.Fatal("it does not end")
	}
	for line := range strings.Lines(errs.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("stderr has a line that is no log: %q", line)
		}
	}
}
