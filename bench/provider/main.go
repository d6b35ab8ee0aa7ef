// Command provider is the simulated provider by itself: for benchmarks, and to
// try clients against it without a gateway. llmgw provider is the same for
// people.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"llmgw/internal/fakellm"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "provider:", err)
		os.Exit(1)
	}
}

// run serves until it is told to stop. It prints its address on stdout.
func run() error {
	var options fakellm.Options
	flags := flag.NewFlagSet("provider", flag.ExitOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on")
	options.Register(flags)
	flags.Usage = func() {
		flags.PrintDefaults()
		fmt.Fprint(flags.Output(), "\n", fakellm.Usage)
	}
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	server := fakellm.New(options).Server()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	if err := server.Close(); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
