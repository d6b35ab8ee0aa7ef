package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"llmgw/internal/fakellm"
)

// provider runs the simulated provider until it is told to stop.
func provider(args []string, io streams) int {
	f := flags("provider", io)
	var o fakellm.Options
	listen := f.String("listen", "127.0.0.1:8081", "where to listen")
	o.Register(f)
	if asksHelp(args) {
		defer fmt.Fprint(io.out, "\n"+fakellm.Usage)
	}
	if code, stop := parsed(f, args, 0, 0, io); stop {
		return code
	}
	if _, err := fakellm.ParseScript(o.Script); err != nil {
		return problem(io, err)
	}
	if min(o.RPM, o.TPM, o.Concurrency) < 0 || min(o.Window, o.Latency, o.ChunkInterval) < 0 {
		return problem(io, errors.New("limits and times must not be negative"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", *listen)
	if err != nil {
		return problem(io, fmt.Errorf("listen: %w", err))
	}
	fmt.Fprintf(io.out, "simulated provider: http://%s/v1\n", l.Addr())
	server := fakellm.New(o).Server()
	context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close() // it is over anyway
		}
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return problem(io, fmt.Errorf("serve: %w", err))
	}
	return exitOK
}
