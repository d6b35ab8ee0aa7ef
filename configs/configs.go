// Package configs holds the configuration that is built into the program. The
// other files here are examples to start from; tests of internal/config load
// each of them.
package configs

import _ "embed"

//go:embed default.yaml
var builtIn string

//go:embed llmgw.example.yaml
var example string

// Example is the text of the example that has every key.
func Example() string { return example }

// Default is the text of the configuration that the gateway runs on when it is
// given none.
func Default() string { return builtIn }
