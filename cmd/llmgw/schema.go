package main

import (
	"encoding/json"
	"fmt"

	"llmgw/internal/config"
)

// schema prints the JSON Schema of the configuration file.
func schema(args []string, io streams) int {
	f := flags("schema", io)
	if code, stop := parsed(f, args, 0, 0, io); stop {
		return code
	}
	s, err := config.Schema()
	if err != nil {
		return problem(io, err)
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return problem(io, err)
	}
	fmt.Fprintf(io.out, "%s\n", text)
	return exitOK
}
