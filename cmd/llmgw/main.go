// Command llmgw is a token-budget gateway for language models. main.go picks
// the subcommand; each has a file of its own. The exit codes are 0 for fine, 1
// for a problem with what was asked, and 2 for wrong usage.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// The exit codes.
const (
	exitOK      = 0
	exitProblem = 1
	exitUsage   = 2
)

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// command is one subcommand. run returns the exit code.
type command struct {
	name, args, does string
	run              func(args []string, io streams) int
}

// synopsis is how the command is called.
func (c command) synopsis() string { return strings.TrimSpace("llmgw " + c.name + " " + c.args) }

func commands() []command {
	return []command{
		{"serve", "[FILE | --config FILE] [--listen A] [--admin-listen A]", "run the gateway on FILE, else LLMGW_CONFIG, else ./llmgw.yaml, else the embedded demo", serve},
		{"check", "[--json] [--env-file F] [--allow-missing-env] [--diff --admin URL] FILE", "validate a configuration and show the effective limits of every key, or how it differs from a running gateway", check},
		{"schema", "", "print a JSON Schema of the configuration file, for editors", schema},
		{"key", "new --team T [--id I] | list | change ID | rotate ID | delete ID [--admin URL]", "make a key for a team's configuration, or keep the keys of the gateway at --admin", key},
		{"credit", "LIMIT AMOUNT --reason R --admin URL", "raise a budget for the rest of its period", credit},
		{"override", "[set] LIMIT AMOUNT --until T --reason R | remove LIMIT | reset LIMIT --reason R --admin URL", "put another amount in a limit's place for a while, end that, or begin its counter anew", override},
		{"block", "[add] SCOPE VALUE | list | remove ID --admin URL", "refuse a team, key, user or ip, or let it in again", block},
		{"estimate", "[--model M] [--path P] [--config FILE] [--json] [FILE]", "estimate the tokens of a request body, which is in FILE or comes on stdin", estimateBody},
		{"provider", "[--listen A] [--rpm N] [--tpm N] [--window 1s] …", "run the simulated provider", provider},
		{"simulate", "[--nodes N] [--limit L] [--load R] [--tpm T] …", "play a limit on virtual time before it is deployed: algorithms, large requests, held reservations, fleets, an absent store", simulate},
		{"healthcheck", "[URL]", "ask whether a gateway is ready, at URL or on the port of LLMGW_LISTEN, 8080 by default; for images without a shell", healthcheck},
		{"version", "", "show version, commit and Go version", version},
	}
}

func main() { os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})) }

func run(args []string, io streams) int {
	if len(args) == 0 {
		usage(io.err)
		return exitUsage
	}
	switch args[0] {
	case "help":
		if len(args) > 1 {
			return run([]string{args[1], "--help"}, io)
		}
		fallthrough
	case "-h", "-help", "--help":
		usage(io.out)
		return exitOK
	case "-version", "--version":
		return version(nil, io)
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(args[1:], io)
		}
	}
	fmt.Fprintf(io.err, "llmgw: there is no command %q\n\n", args[0])
	usage(io.err)
	return exitUsage
}

func usage(w io.Writer) {
	fmt.Fprint(w, "llmgw is a token-budget gateway for language models.\n\nusage: llmgw COMMAND [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %s\n        %s\n", c.synopsis(), c.does)
	}
	fmt.Fprint(w, "\nEach command has --help. Exit codes: 0 fine, 1 a problem with what was asked, 2 wrong usage.\n")
}

// flags is the flag set of a subcommand, with its usage.
func flags(name string, io streams) *flag.FlagSet {
	f := flag.NewFlagSet("llmgw "+name, flag.ContinueOnError)
	f.SetOutput(io.err)
	f.Usage = func() {
		for _, c := range commands() {
			if c.name == name {
				fmt.Fprintf(f.Output(), "usage: %s\n\n%s\n", c.synopsis(), c.does)
			}
		}
		fmt.Fprintln(f.Output())
		f.PrintDefaults()
	}
	return f
}

// parsed reads args into f, flags before and behind arguments, and checks how
// many arguments there are. stop says that the command ends with code: help was
// asked for, or usage was wrong.
func parsed(f *flag.FlagSet, args []string, least, most int, io streams) (code int, stop bool) {
	if asksHelp(args) {
		f.SetOutput(io.out)
		f.Usage()
		return exitOK, true
	}
	if err := f.Parse(flagsFirst(f, args)); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK, true
		}
		return exitUsage, true
	}
	if f.NArg() < least || f.NArg() > most {
		fmt.Fprintf(io.err, "%s: wrong number of arguments\n", f.Name())
		f.Usage()
		return exitUsage, true
	}
	return exitOK, false
}

// flagsFirst sorts args as package flag wants them: it stops at the first
// argument that is no flag.
func flagsFirst(f *flag.FlagSet, args []string) []string {
	var first, rest []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return append(append(append(first, "--"), rest...), args[i+1:]...)
		}
		if len(a) < 2 || a[0] != '-' {
			rest = append(rest, a)
			continue
		}
		first = append(first, a)
		if !takesNext(f, a) {
			continue
		}
		if i++; i == len(args) {
			return first // nothing may stand where the value is missing
		}
		first = append(first, args[i])
	}
	return append(append(first, "--"), rest...)
}

// takesNext tells whether a flag's value is the argument behind it.
func takesNext(f *flag.FlagSet, arg string) bool {
	known := f.Lookup(strings.TrimLeft(arg, "-"))
	if known == nil { // unknown, or with its value: --name=value
		return false
	}
	b, ok := known.Value.(interface{ IsBoolFlag() bool })
	return !ok || !b.IsBoolFlag()
}

func asksHelp(args []string) bool {
	for _, a := range args {
		switch a {
		case "-h", "-help", "--help":
			return true
		case "--":
			return false
		}
	}
	return false
}

// problem reports err and returns the exit code for it.
func problem(io streams, err error) int {
	fmt.Fprintln(io.err, err)
	return exitProblem
}
