package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"llmgw/internal/config"
)

// check validates a configuration: every error with its place on stderr, or the
// effective limits of every key on stdout; or how it differs from what a gateway
// runs on.
func check(args []string, io streams) int {
	f := flags("check", io)
	asJSON := f.Bool("json", false, "print one JSON object: valid, errors, warnings, limits, prices")
	envFile := f.String("env-file", "", "a file of NAME=VALUE lines, for variables that are not set")
	missing := f.Bool("allow-missing-env", false, "variables and secret files that are missing are no error: a pipeline needs no secrets")
	diff := f.Bool("diff", false, "print how FILE differs from what the gateway at --admin runs on, in teams, keys and their limits")
	gateway := operate(f)
	if code, stop := parsed(f, args, 1, 1, io); stop {
		return code
	}
	if *diff && gateway.url == "" {
		fmt.Fprintln(io.err, "llmgw check: --diff needs --admin")
		return exitUsage
	}
	env, err := environment(*envFile)
	if err != nil {
		return problem(io, err)
	}
	load := config.Load
	if *missing {
		load = config.LoadWithoutSecrets
	}
	c, err := load(f.Arg(0), env)
	switch {
	case *asJSON:
		return checkJSON(c, err, io)
	case err != nil:
		return problem(io, err)
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(io.err, "warning: %s\n", w)
	}
	if c.PiecesOfBooks() {
		fmt.Fprintf(io.err, "warning: %s\n", config.WarningOfPieces)
	}
	if *diff {
		return showDiff(c, gateway, io)
	}
	if err := config.Effective(io.out, c); err != nil {
		return problem(io, err)
	}
	return exitOK
}

// checkJSON prints what a load came to.
func checkJSON(c *config.Config, loadErr error, io streams) int {
	text, err := json.MarshalIndent(config.ReportOf(c, loadErr), "", "  ")
	if err != nil {
		return problem(io, err)
	}
	fmt.Fprintf(io.out, "%s\n", text)
	if loadErr != nil {
		return exitProblem
	}
	return exitOK
}

// environment looks variables up in the environment, and what is not set in the
// file at path, if that is not empty.
func environment(path string) (func(string) (string, bool), error) {
	if path == "" {
		return os.LookupEnv, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read --env-file: %w", err)
	}
	values := map[string]string{}
	for n, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(strings.TrimSuffix(line, "\r"))
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if !ok {
			return nil, fmt.Errorf("%s:%d: not NAME=VALUE", path, n+1)
		}
		if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		values[strings.TrimSpace(name)] = value
	}
	return func(name string) (string, bool) {
		if v, ok := os.LookupEnv(name); ok {
			return v, true
		}
		v, ok := values[name]
		return v, ok
	}, nil
}
