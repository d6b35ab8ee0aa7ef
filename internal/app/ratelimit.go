package app

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"llmgw/internal/budget"
	"llmgw/internal/config"
	"llmgw/internal/proxy"
	"llmgw/internal/ratelimit"
)

// listenRatelimit serves Envoy's rate limit service, if the file says where.
func (a *App) listenRatelimit(ctx context.Context, c *config.Config) error {
	if c.Server.RatelimitListen == "" {
		return nil
	}
	cert, err := loadCertificate(c.Server.RatelimitTLS)
	if err != nil {
		return err
	}
	var options []grpc.ServerOption
	if cert != nil {
		s := new(server)
		s.certificate.Store(cert)
		options = append(options, grpc.Creds(credentials.NewTLS(s.tlsConfig())))
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Server.RatelimitListen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	a.rls = grpc.NewServer(options...)
	ratelimit.New(a.limiter, a.descriptorRules).Register(a.rls)
	a.onClose(func(context.Context) error {
		a.rls.Stop()
		return nil
	})
	go func() {
		if err := a.rls.Serve(l); err != nil {
			a.log.Error("the rate limit service has ended", "error", err.Error())
		}
	}()
	a.log.Info("listening", "ratelimit", l.Addr().String())
	return nil
}

// descriptorRules are what descriptors mean under the configuration in force.
func (a *App) descriptorRules() *ratelimit.Rules {
	c, mode := a.config.Load(), a.gateway.Enforcement()
	if known := a.descriptors.Load(); known != nil && known.of == c && known.mode == mode {
		return known.rules
	}
	r := &ratelimit.Rules{Limits: map[string]*budget.Limit{}, Asked: mode != proxy.Off, Shadow: mode == proxy.Shadow}
	for _, l := range everyLimit(c) {
		r.Limits[l.By()] = l
	}
	r.Match = func(domain string, entries map[string]string) ([]string, ratelimit.Charge, bool) {
		for i := range c.Descriptors {
			d := &c.Descriptors[i]
			names, ok := d.Matches(domain, entries)
			if !ok {
				continue
			}
			if d.Charge == config.ChargeAfter {
				return names, ratelimit.After, true
			}
			return names, ratelimit.Before, true
		}
		return nil, ratelimit.Before, false
	}
	a.descriptors.Store(&descriptorRules{of: c, mode: mode, rules: r})
	return r
}

// descriptorRules are rules and what they were made of.
type descriptorRules struct {
	of    *config.Config
	mode  proxy.Enforcement
	rules *ratelimit.Rules
}
