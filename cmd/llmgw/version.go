package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"llmgw/internal/telemetry"
)

// release and commit are set by the linker (-X main.release=1.4.0); a build
// without says what Go's build information knows.
var (
	release string
	commit  string
)

// build says what is running.
func build() telemetry.Build {
	b := telemetry.Build{Version: release, Commit: commit, GoVersion: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if b.Version == "" && ok && info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	if b.Commit == "" && ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = s.Value
			}
		}
	}
	if b.Commit == "" {
		b.Commit = "unknown"
	}
	return b
}

func version(args []string, io streams) int {
	f := flags("version", io)
	if code, stop := parsed(f, args, 0, 0, io); stop {
		return code
	}
	b := build()
	fmt.Fprintf(io.out, "llmgw %s (commit %s, %s)\n", b.Version, b.Commit, b.GoVersion)
	return exitOK
}
