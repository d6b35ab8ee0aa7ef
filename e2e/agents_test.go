package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// longestRun bounds one run of an agent. It ends a hang: the slowest run that is
// right waits about a minute between its own retries.
const longestRun = 4 * time.Minute

// note is what an agent's tool reads in its working directory.
const note = "the note says 8215"

// agent is a program that people work with, as a team would set it up: with the
// gateway's address and a key.
type agent struct {
	name string
	// chat is the model that talks, tool the one that calls a tool once. The
	// configuration has them.
	chat, tool string
	// files are what it is configured with, in its home.
	files func(model string) map[string]string
	env   func(key string) []string
	args  func(model string) []string // the program first
	// limited and spent are how it reports those refusals.
	limited, spent string
}

const prompt = "Say something."

// fiveWords is the answer of five tokens.
const fiveWords = "the budget of every team"

// reason is the gateway's own message, which most agents show as it is.
const reason = " is at its limit of "

var agents = []agent{
	{
		name: "claude-code", chat: "claude-haiku-4-5", tool: "claude-sonnet-4-5",
		env: func(key string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + here.url, "ANTHROPIC_API_KEY=" + key, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"}
		},
		args: func(model string) []string {
			return []string{"claude", "--model", model, "--allowedTools", "Bash", "-p", prompt}
		},
		limited: reason, spent: reason,
	},
	{
		name: "codex", chat: "gpt-5", tool: "gpt-5-codex",
		files: func(string) map[string]string {
			return map[string]string{".codex/config.toml": fmt.Sprintf(`
model_provider = "llmgw"
[model_providers.llmgw]
name = "llmgw"
base_url = "%s/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
`, here.url)}
		},
		env:  func(key string) []string { return []string{"OPENAI_API_KEY=" + key} },
		args: codexExec,
		// It shows no message of a refusal, and retries none.
		limited: "429 Too Many Requests, request id: req_", spent: "Quota exceeded",
	},
	{
		// With the address alone it tries a WebSocket first, and falls back to HTTP.
		name: "codex-websocket", chat: "gpt-5.1", tool: "gpt-5.1-codex",
		files: func(string) map[string]string {
			return map[string]string{".codex/config.toml": fmt.Sprintf("openai_base_url = \"%s/v1\"\n", here.url)}
		},
		env:     func(key string) []string { return []string{"CODEX_API_KEY=" + key} },
		args:    codexExec,
		limited: "429 Too Many Requests, request id: req_", spent: "Quota exceeded",
	},
	{
		name: "gemini-cli", chat: "gemini-2.5-flash", tool: "gemini-2.5-pro",
		files: func(string) map[string]string {
			return map[string]string{".gemini/settings.json": `{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}}`}
		},
		env: func(key string) []string {
			return []string{"GOOGLE_GEMINI_BASE_URL=" + here.url, "GEMINI_API_KEY=" + key, "GEMINI_CLI_TRUST_WORKSPACE=true"}
		},
		args:    func(model string) []string { return []string{"gemini", "-m", model, "-p", prompt} },
		limited: reason, spent: reason,
	},
	{
		name: "opencode", chat: "gpt-4o", tool: "gpt-4.1",
		files: func(model string) map[string]string {
			return map[string]string{".config/opencode/opencode.json": fmt.Sprintf(`{
				"autoupdate": false, "share": "disabled", "model": "llmgw/%[1]s", "small_model": "llmgw/gpt-4o",
				"provider": {"llmgw": {
					"npm": "@ai-sdk/openai-compatible", "name": "llmgw",
					"options": {"baseURL": "%[2]s/v1", "apiKey": "{env:OPENAI_API_KEY}"},
					"models": {"gpt-4o": {"name": "gpt-4o"}, "gpt-4.1": {"name": "gpt-4.1"}}}}}`, model, here.url)}
		},
		env: func(key string) []string {
			return []string{"OPENAI_API_KEY=" + key, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"}
		},
		args: func(string) []string { return []string{"opencode", "run", prompt} },
		// It retries every 429 five times, after 2 to 32 seconds, before it reports it.
		limited: reason, spent: reason,
	},
}

func codexExec(model string) []string {
	return []string{"codex", "exec", "--skip-git-repo-check", "-s", "danger-full-access", "-m", model, prompt}
}

// calls are the arguments that the simulated provider calls agents' tools with.
var calls = []string{
	`Bash={"command":"cat note.txt","description":"Read the note"}`,
	`exec_command={"cmd":"cat note.txt"}`,
	`read_file={"file_path":"note.txt"}`,
	`bash={"command":"cat note.txt","description":"Read the note"}`,
}

// toolScript is the provider's model behind the i-th agent's tool model.
func toolScript(i int) string { return fmt.Sprintf("sim-tool-once-in20-out5-tag%d", 100+i) }

// run runs a once in a new home, without any network but this machine. It
// returns what it printed, and how it ended.
func (a agent) run(t *testing.T, model, key string) (string, error) {
	t.Helper()
	home, work := t.TempDir(), t.TempDir()
	write(t, filepath.Join(work, "note.txt"), note)
	if a.files != nil {
		for name, content := range a.files(model) {
			write(t, filepath.Join(home, name), content)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), longestRun)
	defer cancel()
	args := a.args(model)
	bin, err := filepath.Abs("node_modules/.bin")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, args[0]), args[1:]...)
	cmd.Dir = work
	const nowhere = "http://127.0.0.1:9"
	cmd.Env = append([]string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=dumb", "npm_config_offline=true",
		"HTTPS_PROXY=" + nowhere, "HTTP_PROXY=" + nowhere, "NO_PROXY=127.0.0.1,localhost",
	}, a.env(key)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s hangs:\n%s", a.name, out.String())
	}
	return out.String(), err
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// use makes a call with key, so that the limit of its team is used up.
func use(t *testing.T, key string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, here.url+"/v1/chat/completions",
		strings.NewReader(`{"model": "sim-in300000-out5", "messages": [{"role": "user", "content": "Hi."}], "max_tokens": 5}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the call that uses the limit up: %s", resp.Status)
	}
}

func TestAgents(t *testing.T) {
	if here.direct {
		t.Skip("only the gateway has the models and limits of these")
	}
	for i, a := range agents {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			t.Run("a chat", func(t *testing.T) {
				t.Parallel()
				out, err := a.run(t, a.chat, plainKey(a.name))
				if err != nil || !strings.Contains(out, fiveWords) {
					t.Errorf("%v, want the answer %q:\n%s", err, fiveWords, out)
				}
			})
			t.Run("a tool call", func(t *testing.T) {
				t.Parallel()
				out, err := a.run(t, a.tool, plainKey(a.name))
				if err != nil || !strings.Contains(out, fiveWords) {
					t.Errorf("%v, want the answer %q:\n%s", err, fiveWords, out)
				}
				all := saw(t, toolScript(i))
				if len(all) < 2 || !strings.Contains(all[len(all)-1].Body, note) {
					t.Errorf("the provider saw %d requests, want two or more, the last with what the tool read", len(all))
				}
			})
			for _, s := range []struct{ what, key, want string }{
				{"a rate limit", limitedKey(a.name), a.limited},
				{"a spent budget", spentKey(a.name), a.spent},
			} {
				t.Run(s.what, func(t *testing.T) {
					t.Parallel()
					use(t, s.key)
					if out, err := a.run(t, a.chat, s.key); !strings.Contains(out, s.want) {
						t.Errorf("%v, want the reason, %q:\n%s", err, s.want, out)
					}
				})
			}
		})
	}
}
