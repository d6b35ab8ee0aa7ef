package config

import "llmgw/configs"

// What the built-in configuration is made of, beside its text.
const (
	// DemoKey is the secret of its only key. It guards nothing.
	DemoKey = "sk-llmgw-demo"
	// DemoScript is what its simulated provider does for every model whose name
	// is no script itself: some text, as fast as one reads.
	DemoScript = "sim-out64-every20ms"
)

// Default is the configuration that is built in: a simulated provider, a demo
// team, and counters in memory. Whoever starts the provider puts its address
// into the base URLs, which point nowhere.
func Default() (*Config, error) {
	return Parse("default.yaml", []byte(configs.Default()), Lookups{})
}
