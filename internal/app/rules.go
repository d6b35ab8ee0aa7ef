package app

import (
	"fmt"
	"slices"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/config"
	"llmgw/internal/estimate"
	"llmgw/internal/proxy"
	"llmgw/internal/tenant"
	"llmgw/internal/upstream"
)

// compiled is a configuration as the parts of the gateway take it.
type compiled struct {
	rules     *proxy.Rules
	providers []*upstream.Provider
}

// compile turns a checked configuration into what the parts take, with the
// providers that providersOf made of it.
func (a *App) compile(c *config.Config, providers map[string]*upstream.Provider) (compiled, error) {
	directory, err := tenant.NewDirectory(a.teamsOf(c))
	if err != nil {
		return compiled{}, fmt.Errorf("compile the teams: %w", err)
	}
	for _, l := range everyLimit(c) {
		l.Compile()
	}
	rules := &proxy.Rules{
		Directory:    directory,
		Proxies:      tenant.Proxies(c.Server.TrustedProxies),
		Prefixes:     tenant.Prefixes(c.Server.IPPrefix),
		Models:       modelsOf(c, providers),
		Limits:       c.Limits,
		MaxBodyBytes: c.Server.MaxBodyBytes, MaxBodiesBytes: c.Server.MaxBodiesBytes,
		MaxWaiting:   c.Server.MaxWaiting,
		OnClientGone: proxy.ClientGone(c.Server.OnClientGone),
		DrainTime:    c.Server.Drain.MaxTime,
		DrainBytes:   c.Server.Drain.MaxBytes,
		CrashCharge:  c.Store.CrashCharge,
		SocketKey:    c.Server.SocketKey,
	}
	for _, p := range c.Passthrough {
		rules.Passthrough = append(rules.Passthrough, proxy.Passthrough{
			Path: p.Path, Methods: p.Methods, Provider: providers[p.Provider], Requests: p.Requests, Tokens: p.Tokens,
		})
	}
	if c.Server.ExposeUpstreamLimits {
		rules.Exposure = proxy.ExposeLimits
	}
	list := make([]*upstream.Provider, 0, len(c.Providers))
	for i := range c.Providers {
		list = append(list, providers[c.Providers[i].Name])
	}
	return compiled{rules: rules, providers: list}, nil
}

func (a *App) teamsOf(c *config.Config) []tenant.Team {
	teams := make([]tenant.Team, len(c.Teams))
	for i, t := range c.Teams {
		teams[i] = tenant.Team{Name: t.Name, Weight: t.Weight, Models: namesOf(t.Models), Limits: t.Limits}
		for _, k := range t.Keys {
			teams[i].Keys = append(teams[i].Keys, tenant.Key{
				ID: k.ID, SHA256: k.SHA256, Former: k.Former, Models: namesOf(k.Models), Limits: k.Limits, LastUsed: a.used.of(k.ID),
			})
		}
	}
	return teams
}

// namesOf is the set of names; nil stays nil, which is all.
func namesOf(names []string) map[string]bool {
	if names == nil {
		return nil
	}
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

func providersOf(c *config.Config) map[string]*upstream.Provider {
	all := make(map[string]*upstream.Provider, len(c.Providers))
	for _, p := range c.Providers {
		out := &upstream.Provider{
			Name: p.Name, Dialect: p.Dialect, Flavor: p.Flavor, BaseURL: p.BaseURL, APIVersion: p.APIVersion, Region: p.Region, APIKeys: p.APIKeys,
			Limits: upstream.Limits{
				RequestsPerMinute: p.Limits.RequestsPerMinute, TokensPerMinute: p.Limits.TokensPerMinute,
				Concurrency: p.Limits.Concurrency, Window: p.Limits.Window, Keys: upstream.Shared,
				Kind: upstream.LimitKind(p.Limits.Kind),
			},
			MaxWait: p.MaxWait, Retries: p.RetryAttempts,
			Timeouts: upstream.Timeouts{Connect: p.Timeouts.Connect, FirstByte: p.Timeouts.FirstByte, Idle: p.Timeouts.Idle},
			Usage:    upstream.UsagePolicy(p.InjectUsage), Failures: upstream.CountFailures, Version: c.Version,
		}
		if p.Limits.PerKey {
			out.Limits.Keys = upstream.PerKey
		}
		if !p.FailuresCount {
			out.Failures = upstream.FreeFailures
		}
		all[p.Name] = out
	}
	return all
}

func modelsOf(c *config.Config, providers map[string]*upstream.Provider) map[string]*charge.Model {
	models := make(map[string]*charge.Model, len(c.Models))
	for _, m := range c.Models {
		out := &charge.Model{
			Name: m.Name, Weights: m.Weights, Prices: m.Prices, Limits: m.Limits, CapOutput: m.CapOutput, SpillAfter: m.SpillAfter, Created: c.Version / 1000,
			Rules: estimate.Rules{
				Encoding: m.Encoding, DefaultMaxOutput: m.DefaultMaxOutput, MaxOutput: m.MaxOutput, Learned: m.ReserveOutput == "learned",
			},
		}
		for _, t := range m.Targets {
			out.Targets = append(out.Targets, upstream.Target{Provider: providers[t.Provider], Model: t.Model, Order: t.Order, Weight: t.Weight})
		}
		models[m.Name] = out
	}
	return models
}

// limitsOf lists the limits whose counters exist without a request: those of
// the gateway, models, teams and keys that have one counter.
func limitsOf(c *config.Config) []*budget.Limit {
	return slices.DeleteFunc(everyLimit(c), func(l *budget.Limit) bool { return !l.Single() })
}

// everyLimit lists the limits of the gateway, models, teams and keys.
func everyLimit(c *config.Config) []*budget.Limit {
	all := slices.Clone(c.Limits)
	for _, m := range c.Models {
		all = append(all, m.Limits...)
	}
	for _, t := range c.Teams {
		all = append(all, t.Limits...)
		for _, k := range t.Keys {
			all = append(all, k.Limits...)
		}
	}
	return all
}
