package main

import (
	"fmt"
	"os"

	"llmgw/internal/config"
)

// check validates a configuration: every error with its place on stderr, or the
// effective limits of every key on stdout.
func check(args []string, io streams) int {
	f := flags("check", io)
	if code, stop := parsed(f, args, 1, 1, io); stop {
		return code
	}
	c, err := config.Load(f.Arg(0), os.LookupEnv)
	if err != nil {
		return problem(io, err)
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(io.err, "warning: %s\n", w)
	}
	if err := config.Effective(io.out, c); err != nil {
		return problem(io, err)
	}
	return exitOK
}
