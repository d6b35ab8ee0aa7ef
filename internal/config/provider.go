package config

import (
	"net/url"
	"strings"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/registry"
)

// What a provider can be believed to allow in a minute. Paces within it are
// counted exactly, in fractions of a request.
const (
	maxRequests = 10_000_000
	maxTokens   = 10_000_000_000
)

// defaultProvider is a provider of which only what is needed is said.
func defaultProvider() Provider {
	return Provider{
		Limits:        ProviderLimits{Kind: "window", Window: time.Second},
		MaxWait:       10 * time.Second,
		RetryAttempts: 2,
		Timeouts:      Timeouts{Connect: 5 * time.Second, FirstByte: 10 * time.Minute, Idle: 2 * time.Minute},
		InjectUsage:   "auto",
		FailuresCount: true,
	}
}

func (d *decoder) provider(p *Provider) func(*node) {
	return func(n *node) {
		*p = defaultProvider()
		before := len(d.problems)
		d.object(n, fields{
			"name":           set(d, &p.Name, name),
			"dialect":        set(d, &p.Dialect, oneOf(registry.Names(nil)...)),
			"flavor":         set(d, &p.Flavor, oneOf(registry.Flavors()...)),
			"base_url":       setSecret(d, &p.BaseURL, webAddress),
			"api_version":    set(d, &p.APIVersion, wordOrNothing),
			"api_keys":       setList(d, &p.APIKeys, func(k *string) func(*node) { return setSecret(d, k, word) }),
			"region":         set(d, &p.Region, wordOrNothing),
			"limits":         d.providerLimits(&p.Limits),
			"max_wait":       set(d, &p.MaxWait, duration(0, time.Hour)),
			"retries":        d.retries(&p.RetryAttempts),
			"timeouts":       d.timeouts(&p.Timeouts),
			"inject_usage":   set(d, &p.InjectUsage, oneOf("auto", "on", "off")),
			"failures_count": set(d, &p.FailuresCount, boolean),
		})
		d.need(n, "a provider", "name", "dialect", "base_url")
		if p.Name != "" {
			d.unique(d.providers, p.Name, n.at("name"), "a provider")
		}
		if len(d.problems) == before {
			d.checkDialect(p, n)
			d.warnOfAddress(p, n)
		}
	}
}

// warnOfAddress warns of a provider that cannot be meant so: one on the internet
// without a key, or with a base URL that its own client would not take.
func (d *decoder) warnOfAddress(p *Provider, n *node) {
	u, err := url.Parse(p.BaseURL)
	if err != nil {
		return
	}
	if u.Scheme == "https" && len(p.APIKeys) == 0 && n.value("api_keys") == nil {
		d.warn(n.at("base_url"), "the provider %q is asked over https without a key: write api_keys, or api_keys: [] if it wants none", p.Name)
	}
	path := strings.TrimSuffix(u.Path, "/")
	suffix := registry.Profile(p.Dialect).BasePath
	switch {
	case suffix != "" && path == "" && u.Scheme == "https":
		d.warn(n.at("base_url"), "clients of this API take a base URL that ends in %s, as %s%s", suffix, strings.TrimSuffix(p.BaseURL, "/"), suffix)
	case suffix == "" && path == "/v1":
		d.warn(n.at("base_url"), "clients of this API add /v1 themselves: write %s", strings.TrimSuffix(strings.TrimSuffix(p.BaseURL, "/"), "/v1"))
	}
}

// checkDialect looks at the settings that only some dialects have.
func (d *decoder) checkDialect(p *Provider, n *node) {
	api := registry.Profile(p.Dialect)
	if p.Flavor != "" && api.Flavor(p.Flavor).Name == "" {
		d.onlySome(n.at("flavor"), p, "flavors", func(a *dialect.Profile) bool { return len(a.Flavors) > 1 })
	}
	p.Flavor = api.Flavor(p.Flavor).Name
	for _, k := range [...]struct {
		key, value, one, many string
		of                    func(*dialect.Profile) dialect.Setting
	}{
		{"api_version", p.APIVersion, "a version", "versions", func(a *dialect.Profile) dialect.Setting { return a.APIVersion }},
		{"region", p.Region, "a region", "regions", func(a *dialect.Profile) dialect.Setting { return a.Region }},
	} {
		s := k.of(api)
		switch {
		case k.value == "":
		case s.Form == nil:
			d.onlySome(n.at(k.key), p, k.many, func(a *dialect.Profile) bool { return k.of(a).Form != nil })
		case !s.Form.MatchString(k.value):
			d.fail(n.at(k.key), "%s is not %s such as %s", show(n.at(k.key)), k.one, s.Example)
		}
	}
	for i, key := range p.APIKeys {
		if api.Signs != nil && api.Signs(key) && p.Region == "" {
			d.fail(n.value("api_keys").items[i], "an access key and secret sign for a region: the provider needs \"region\"")
		}
	}
}

// onlySome refuses a setting that p's dialect does not have, but those that have
// holds for.
func (d *decoder) onlySome(at *node, p *Provider, what string, have func(*dialect.Profile) bool) {
	d.fail(at, "only the %s dialect has %s, this is %s", strings.Join(registry.Names(have), " or "), what, p.Dialect)
}

func (d *decoder) providerLimits(l *ProviderLimits) func(*node) {
	return func(n *node) {
		d.object(n, fields{
			"requests_per_minute": set(d, &l.RequestsPerMinute, atMost(maxRequests, amount(1))),
			"tokens_per_minute":   set(d, &l.TokensPerMinute, atMost(maxTokens, amount(1))),
			"concurrency":         set(d, &l.Concurrency, atMost(maxRequests, amount(1))),
			"kind":                set(d, &l.Kind, oneOf("window", "bucket", "fixed")),
			"window":              set(d, &l.Window, duration(10*time.Millisecond, time.Minute)),
			"per_key":             set(d, &l.PerKey, boolean),
		})
	}
}

func (d *decoder) retries(attempts *int) func(*node) {
	return func(n *node) {
		d.object(n, fields{"attempts": set(d, attempts, small(0, 10))})
	}
}

func (d *decoder) timeouts(t *Timeouts) func(*node) {
	return func(n *node) {
		d.object(n, fields{
			"connect":    set(d, &t.Connect, duration(time.Millisecond, longest)),
			"first_byte": set(d, &t.FirstByte, duration(time.Millisecond, longest)),
			"idle":       set(d, &t.Idle, duration(time.Millisecond, longest)),
		})
	}
}
