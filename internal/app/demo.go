package app

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"llmgw/internal/config"
	"llmgw/internal/dialect/registry"
	"llmgw/internal/fakellm"
)

// demo is the simulated provider of the embedded default.
type demo struct{ server *http.Server }

// demoModel is the embedded default's model that the greeting uses.
const demoModel = "sim-demo"

// makeDemo starts the simulated provider inside this process and points the
// embedded default at it. Other configurations have their own providers.
func (a *App) makeDemo(ctx context.Context, c *config.Config) error {
	if a.options.ConfigFile != "" {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("start the simulated provider: %w", err)
	}
	a.demo = &demo{server: &http.Server{Handler: fakellm.New(fakellm.Options{Script: config.DemoScript}), ReadHeaderTimeout: headerTimeout}}
	go func() { _ = a.demo.server.Serve(l) }() // ends with Close
	a.onClose(func(context.Context) error {
		_ = a.demo.server.Close() // nothing is lost
		return nil
	})
	for i := range c.Providers {
		c.Providers[i].BaseURL = "http://" + l.Addr().String() + registry.Profile(c.Providers[i].Dialect).BasePath
	}
	return nil
}

// demoNotice is what the dashboard says while the demo runs.
const demoNotice = "This is the demo, because no configuration was found: a simulated provider answers, limits are in memory, and everybody knows the key. " +
	"Start with llmgw serve FILE, LLMGW_CONFIG=FILE, or a llmgw.yaml in the working directory."

// greet tells a newcomer what to try. Only the embedded default greets: logs
// are for stderr, and stdout stays empty otherwise.
func (a *App) greet() {
	if a.demo == nil || a.options.Stdout == nil {
		return
	}
	fmt.Fprintf(a.options.Stdout, `********************************************************************************
  THIS IS THE DEMO, because no configuration was found: a simulated provider
  answers, limits are in memory, and everybody knows the key.
  Yours: llmgw serve FILE, or LLMGW_CONFIG=FILE, or ./llmgw.yaml
********************************************************************************

Try it:

  curl http://%s/v1/chat/completions -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' -d '{"model": "%s", "messages": [{"role": "user", "content": "Hello!"}]}'

Dashboard: http://%s/dashboard
`, a.Addr(), config.DemoKey, demoModel, a.AdminAddr())
}
