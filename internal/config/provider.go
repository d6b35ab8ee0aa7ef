package config

import (
	"regexp"
	"strings"
	"time"
)

// dialects are what providers speak, flavors the accents of the first.
func dialects() []string {
	return []string{"openai", "azure", "anthropic", "gemini", "bedrock", "cohere", "ollama"}
}

func flavors() []string {
	return []string{"openai", "mistral", "deepseek", "groq", "openrouter", "together", "fireworks",
		"xai", "perplexity", "vllm", "llamacpp", "lmstudio"}
}

// azureVersion is a dated version of Azure's API, or its undated surface.
var azureVersion = regexp.MustCompile(`^(v1|preview|latest|\d{4}-\d{2}-\d{2}(-preview)?)$`)

// awsRegion is the name of an AWS region.
var awsRegion = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-\d$`)

// What a provider can be believed to allow in a minute. Paces within it are
// counted exactly, in fractions of a request.
const (
	maxRequests = 10_000_000
	maxTokens   = 10_000_000_000
)

// defaultProvider is a provider of which only what is needed is said.
func defaultProvider() Provider {
	return Provider{
		Limits:        ProviderLimits{Window: time.Second},
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
			"dialect":        set(d, &p.Dialect, oneOf(dialects()...)),
			"flavor":         set(d, &p.Flavor, oneOf(flavors()...)),
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
		}
	}
}

// checkDialect looks at the keys that only some dialects have.
func (d *decoder) checkDialect(p *Provider, n *node) {
	if p.Flavor != "" && p.Dialect != "openai" {
		d.fail(n.at("flavor"), "only the openai dialect has flavors, this is %s", p.Dialect)
	}
	if p.Flavor == "" && p.Dialect == "openai" {
		p.Flavor = "openai"
	}
	if p.APIVersion != "" && p.Dialect != "azure" {
		d.fail(n.at("api_version"), "only the azure dialect has versions, this is %s", p.Dialect)
	}
	if p.APIVersion != "" && p.Dialect == "azure" && !azureVersion.MatchString(p.APIVersion) {
		d.fail(n.at("api_version"), "%s is not a version such as 2024-10-21 or v1", show(n.at("api_version")))
	}
	if p.Region != "" && p.Dialect != "bedrock" {
		d.fail(n.at("region"), "only the bedrock dialect has regions, this is %s", p.Dialect)
	}
	if p.Region != "" && p.Dialect == "bedrock" && !awsRegion.MatchString(p.Region) {
		d.fail(n.at("region"), "%s is not a region such as eu-west-1", show(n.at("region")))
	}
	for i, key := range p.APIKeys {
		if p.Dialect == "bedrock" && strings.Contains(key, ":") && p.Region == "" {
			d.fail(n.value("api_keys").items[i], "an access key and secret sign for a region: the provider needs \"region\"")
		}
	}
}

func (d *decoder) providerLimits(l *ProviderLimits) func(*node) {
	return func(n *node) {
		d.object(n, fields{
			"requests_per_minute": set(d, &l.RequestsPerMinute, atMost(maxRequests, amount(1))),
			"tokens_per_minute":   set(d, &l.TokensPerMinute, atMost(maxTokens, amount(1))),
			"concurrency":         set(d, &l.Concurrency, atMost(maxRequests, amount(1))),
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
