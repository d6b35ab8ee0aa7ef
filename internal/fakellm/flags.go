package fakellm

import (
	"encoding/json"
	"errors"
	"flag"
	"strings"
)

// Register adds a flag for each of o's options to fs. Parsing fs then fills
// in o.
func (o *Options) Register(fs *flag.FlagSet) {
	fs.Int64Var(&o.RPM, "rpm", 0, "most requests in any minute; 0: no limit")
	fs.Int64Var(&o.TPM, "tpm", 0, "most tokens in any minute; 0: no limit")
	fs.DurationVar(&o.Window, "window", 0, "a shorter interval that is judged as well, by its share of both; 0: none")
	fs.Int64Var(&o.Concurrency, "concurrency", 0, "most requests in flight; 0: no limit")
	fs.BoolVar(&o.PerKey, "per-key", false, "limits are of each API key")
	fs.Func("token-cost", "what counts against -tpm: reserved (input and most output; the default), input, or settled", func(s string) error {
		c, err := parseTokenCost(s)
		o.TokenCost = c
		return err
	})
	fs.Int64Var(&o.DefaultMaxOutput, "default-max-output", 4096, "what a request without a maximum counts as one")
	fs.Func("key", "an API key to accept; may be repeated; none: any", func(k string) error {
		o.Keys = append(o.Keys, k)
		return nil
	})
	fs.Func("call", "NAME={…}: call this tool rather than a request's first, with this object; may be repeated", func(s string) error {
		name, arguments, _ := strings.Cut(s, "=")
		if name == "" || !strings.HasPrefix(arguments, "{") || !json.Valid([]byte(arguments)) {
			return errors.New("want a tool's name, =, and a JSON object")
		}
		if o.Calls == nil {
			o.Calls = map[string]string{}
		}
		o.Calls[name] = arguments
		return nil
	})
	fs.DurationVar(&o.Latency, "latency", 0, "time before the headers")
	fs.DurationVar(&o.ChunkInterval, "interval", 0, "time between the chunks of a stream")
	fs.StringVar(&o.Script, "script", "sim", "the script that plain model names follow")
	fs.IntVar(&o.Record, "record", 64, "how many of the last requests /sim/stats shows; below 0: none")
}
