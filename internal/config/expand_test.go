package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatADollarStandsFor(t *testing.T) {
	l := Lookups{
		Env: func(name string) (string, bool) {
			v, ok := map[string]string{"HOST": "redis", "EMPTY": "", "NESTED": "${HOST}", "_x9": "y", "BAD": "\xff"}[name]
			return v, ok
		},
		File: func(path string) ([]byte, error) {
			content, ok := map[string]string{
				"secret": "hush", "line": "hush\n", "dos": "hush\r\n", "lines": "a\nb\n\n", "empty": "",
				"bad": "\xff", "full": strings.Repeat("x", maxSecretBytes), "large": strings.Repeat("x", maxSecretBytes+1), "a:-b": "colon",
			}[path]
			if !ok {
				return nil, &fs.PathError{Op: "open", Path: "/etc/" + path, Err: fs.ErrNotExist}
			}
			return []byte(content), nil
		},
	}
	for _, s := range []struct{ text, want, err string }{
		{"plain", "plain", ""},
		{"${HOST}", "redis", ""},
		{"a-${HOST}:6379-${HOST}", "a-redis:6379-redis", ""},
		{"${_x9}", "y", ""},
		{"${NESTED}", "${HOST}", ""}, // what is put in is not looked at again
		{"${EMPTY}", "", ""},
		{"${EMPTY:-other}", "other", ""},
		{"${NONE:-other}", "other", ""},
		{"${NONE:-}", "", ""},
		{"${NONE:-a:-b}", "a:-b", ""},
		{"${HOST:-other}", "redis", ""},
		{"$$", "$", ""},
		{"$${HOST}", "${HOST}", ""},
		{"$$$$", "$$", ""},
		{"${file:secret}", "hush", ""},
		{"${file:line}", "hush", ""},
		{"${file:dos}", "hush", ""},
		{"${file:lines}", "a\nb\n", ""}, // one line break is cut
		{"${file:empty}", "", ""},
		{"${file:a:-b}", "colon", ""},
		{"${file:full}", strings.Repeat("x", maxSecretBytes), ""},

		{"${NONE}", "", "the environment variable NONE is not set (${NONE:-} would be empty then)"},
		{"${HOST} ${NONE}", "", "the environment variable NONE is not set"},
		{"$", "", `a lone "$": write "$$"`},
		{"pa$word", "", `a lone "$": write "$$"`},
		{"$HOST", "", `a lone "$": write "$$"`},
		{"${HOST", "", `"${" without "}"`},
		{"${}", "", "${} is not ${NAME}"},
		{"${a-b}", "", "${a-b} is not ${NAME}"},
		{"${HOST-other}", "", "${HOST-other} is not ${NAME}"},
		{"${9}", "", "${9} is not ${NAME}"},
		{"${env:HOST}", "", "${env:HOST} is not ${NAME}"},
		{"${BAD}", "", "the environment variable BAD is not UTF-8"},
		{"${file:}", "", "${file:} names no file"},
		{"${file:gone}", "", "${file:gone}: file does not exist"},
		{"${file:bad}", "", "${file:bad} is not UTF-8"},
		{"${file:large}", "", "${file:large} has more than 65536 bytes"},
	} {
		got, errs := l.expand(s.text)
		err := errors.Join(errs...)
		switch {
		case s.err == "" && (err != nil || got != s.want):
			t.Errorf("%s: got %q, %v, want %q", s.text, got, err, s.want)
		case s.err != "" && (err == nil || !strings.HasPrefix(err.Error(), s.err)):
			t.Errorf("%s: got %q, %v, want the error %q", s.text, got, err, s.err)
		}
	}
}

func TestAllThatOneValueLacksIsTold(t *testing.T) {
	got := problemsOf(t, "server:\n  admin_token: ${A}-${B}-$c-${D\n", Lookups{})
	checkProblems(t, got, `2:16: the environment variable A is not set
2:16: the environment variable B is not set
2:16: a lone "$"
2:16: "${" without "}"`)
}

func TestNothingIsKnownWithoutLookups(t *testing.T) {
	got := problemsOf(t, "server: {admin_token: \"${A}\", listen: \"${file:b}\"}", Lookups{})
	checkProblems(t, got, "1:23: the environment variable A is not set\n1:39: ${file:b}: files cannot be read here")
}

func TestKeysAndCommentsAreNotExpanded(t *testing.T) {
	got := problemsOf(t, "\"${A}\": 1 # ${B}\n", Lookups{Env: func(string) (string, bool) { return "server", true }})
	checkProblems(t, got, `1:1: unknown key "${A}"`)
}

func TestWhatIsPutInCannotChangeTheFile(t *testing.T) {
	src := "server: {admin_token: ${A}}\nenforcement: shadow\n"
	src = strings.Replace(src, "${A}", `"${A}"`, 1)
	c, err := Parse("f", []byte(src), Lookups{Env: func(string) (string, bool) { return "x,listen:y}#", true }})
	if err != nil {
		t.Fatal(err)
	}
	if c.Server.AdminToken != "x,listen:y}#" || c.Enforcement != Shadow {
		t.Errorf("got %+v", c.Server)
	}
}

func TestASecretIsNeverInAMessage(t *testing.T) {
	src, err := os.ReadFile(filepath.Join(configsDir, "llmgw.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hunter2-HUNTER2", "hunter2 HUNTER2", "-770077", "770077.7700770", "770077M", "https://hunter2:hunter2@h", "0", ""} {
		l := Lookups{
			Env:  func(name string) (string, bool) { return secret, true },
			File: func(string) ([]byte, error) { return []byte(secret), nil },
		}
		root, problems := readTree("f", src)
		if root == nil {
			t.Fatal(problems)
		}
		count := 0
		walk(root, func(n *node) {
			if n.kind != scalar {
				return
			}
			count++
			raw, text := n.raw, n.text
			n.raw = "${SECRET}"
			d := newDecoder(0)
			d.problems = l.expandAll(root)
			d.config(root)
			d.check()
			n.raw, n.text = raw, text
			for _, p := range append(d.problems, d.warnings...) {
				if len(secret) > 2 && (strings.Contains(p.What, secret) || strings.Contains(p.What, "770077") || strings.Contains(p.What, "hunter2")) {
					t.Errorf("%d:%d: the secret is in %q", n.line, n.column, p.What)
				}
			}
		})
		if count < 140 {
			t.Errorf("tried %d values, want all", count)
		}
	}
}
