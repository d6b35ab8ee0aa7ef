package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"llmgw/internal/app"
	"llmgw/internal/estimate"
)

// maxEstimated bounds the body that is read, in bytes.
const maxEstimated = 256 << 20

// estimateBody reads a request body and shows what a gateway would reserve for
// it.
func estimateBody(args []string, streams streams) int {
	f := flags("estimate", streams)
	model := f.String("model", "", "the model, if the body names none or another is meant")
	path := f.String("path", "/v1/chat/completions", "the endpoint that the body is for")
	asJSON := f.Bool("json", false, "print one JSON object")
	configFile := f.String("config", "", "a configuration whose models' settings are used")
	if code, stop := parsed(f, args, 0, 1, streams); stop {
		return code
	}
	body, err := readInput(f.Arg(0), streams.in)
	if err != nil {
		return problem(streams, err)
	}
	e, err := app.Estimate(app.EstimateOptions{ConfigFile: *configFile, Model: *model, Path: *path, Body: body})
	if err != nil {
		return problem(streams, fmt.Errorf("estimate: %w", err))
	}
	if *asJSON {
		out, err := json.Marshal(e)
		if err != nil {
			return problem(streams, err)
		}
		fmt.Fprintf(streams.out, "%s\n", out)
		return exitOK
	}
	if err := printEstimate(streams.out, e); err != nil {
		return problem(streams, err)
	}
	return exitOK
}

func readInput(file string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if file != "" && file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer opened.Close() //nolint:errcheck // it was only read
		in = opened
	}
	body, err := io.ReadAll(io.LimitReader(in, maxEstimated+1))
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	if len(body) > maxEstimated {
		return nil, errors.New("read the body: it is larger than 256 MiB")
	}
	return body, nil
}

// printEstimate shows an estimate and its parts to people.
func printEstimate(w io.Writer, e estimate.Estimate) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range []struct {
		name  string
		value any
	}{
		{"input_tokens", e.Input}, {"output_tokens", e.Output}, {"total_tokens", e.Total()},
		{"  text", e.Parts.Text}, {"  messages", e.Parts.Messages}, {"  tools", e.Parts.Tools}, {"  images", e.Parts.Images},
		{"  media", e.Parts.Media}, {"  factor", e.Parts.Factor}, {"  output", e.Parts.Output},
	} {
		fmt.Fprintf(t, "%s\t%v\n", row.name, row.value)
	}
	if e.Sampled {
		fmt.Fprintln(t, "sampled\ttrue")
	}
	return t.Flush()
}
