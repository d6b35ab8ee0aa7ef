package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"llmgw/internal/app"
	"llmgw/internal/telemetry"
)

// serve runs the gateway until SIGTERM or SIGINT, and ends it in order. A second
// one ends it at once: what runs is cut, and settled all the same.
func serve(args []string, io streams) int {
	f := flags("serve", io)
	o := app.Options{Build: build(), Stdout: io.out}
	f.StringVar(&o.ConfigFile, "config", "", "the configuration; without it LLMGW_CONFIG, then ./"+localConfig+", then the embedded demo")
	f.StringVar(&o.Listen, "listen", os.Getenv("LLMGW_LISTEN"), "overrides server.listen; without it LLMGW_LISTEN")
	f.StringVar(&o.AdminListen, "admin-listen", os.Getenv("LLMGW_ADMIN_LISTEN"), "overrides server.admin_listen; without it LLMGW_ADMIN_LISTEN")
	level := f.String("log-level", "info", "debug, info, warn or error")
	if code, stop := parsed(f, args, 0, 1, io); stop {
		return code
	}
	if f.NArg() == 1 && o.ConfigFile != "" {
		fmt.Fprintln(io.err, "llmgw serve: the configuration is named twice: as an argument and by --config")
		return exitUsage
	}
	o.ConfigFile = configFile(cmp.Or(o.ConfigFile, f.Arg(0)))
	var l slog.Level
	if err := l.UnmarshalText([]byte(*level)); err != nil {
		fmt.Fprintf(io.err, "llmgw serve: --log-level: %v\n", err)
		return exitUsage
	}
	o.Logger = telemetry.NewLogger(io.err, l)
	ctx, hurry := stops()
	o.Hurry = hurry
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	o.Reload = hangup
	a, err := app.New(ctx, o)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w: choose other addresses with --listen and --admin-listen", err)
	}
	if err != nil {
		return problem(io, err)
	}
	if err := a.Run(ctx); err != nil {
		o.Logger.Error("ended with a problem", "error", err.Error())
		return exitProblem
	}
	return exitOK
}

// localConfig is the configuration in the working directory that serve takes
// when none is named.
const localConfig = "llmgw.yaml"

// configFile returns the configuration to serve: the one that is named, else
// LLMGW_CONFIG, else localConfig if there is one, else none, which is the demo.
func configFile(named string) string {
	if named = cmp.Or(named, os.Getenv("LLMGW_CONFIG")); named != "" {
		return named
	}
	if _, err := os.Stat(localConfig); errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return localConfig
}

// stops returns a context that ends with the first SIGTERM or SIGINT, and a
// channel that is closed with the second.
func stops() (context.Context, <-chan struct{}) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	hurry := make(chan struct{})
	go func() {
		<-signals
		cancel()
		<-signals
		close(hurry)
		signal.Reset(syscall.SIGINT, syscall.SIGTERM) // a third one is the system's
	}()
	return ctx, hurry
}
