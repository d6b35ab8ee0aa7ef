package main

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"llmgw/internal/config"
	"llmgw/internal/tenant"
)

// plainID is an id that stands in YAML without quotes.
var plainID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// key makes a key: the secret for the app, once, and its line for the
// configuration, which holds the hash alone.
func key(args []string, io streams) int {
	f := flags("key", io)
	team := f.String("team", "", "the team that the key belongs to")
	id := f.String("id", "", "what the key is called in the configuration (default: the team's name and a random suffix)")
	if !asksHelp(args) && (len(args) == 0 || args[0] != "new") {
		fmt.Fprintln(io.err, "llmgw key: the only thing to do with keys is: new")
		f.Usage()
		return exitUsage
	}
	if len(args) > 0 && args[0] == "new" {
		args = args[1:]
	}
	if code, stop := parsed(f, args, 0, 0, io); stop {
		return code
	}
	if *team == "" {
		fmt.Fprintln(io.err, "llmgw key new: --team is needed")
		f.Usage()
		return exitUsage
	}
	if err := config.CheckName(*team); err != nil {
		return problem(io, fmt.Errorf("--team: %w", err))
	}
	secret, hash := tenant.NewSecret()
	if *id == "" {
		const suffix = 1 + 2*3 // a dash and three bytes
		*id = (*team)[:min(len(*team), config.LongestName-suffix)] + "-" + hex.EncodeToString(hash[:3])
	}
	if err := config.CheckName(*id); err != nil {
		return problem(io, fmt.Errorf("--id: %w", err))
	}
	fmt.Fprintf(io.out, "key: %s\n- {id: %s, sha256: %s}\n", secret, quoted(*id), hex.EncodeToString(hash[:]))
	fmt.Fprintf(io.err, "Give the key to the app, and put the second line under keys: of team %q. The key is shown this once.\n", *team)
	return exitOK
}

// quoted is id as it stands in YAML: with quotes where it could be read as
// something else than text, such as @x or null.
func quoted(id string) string {
	if plainID.MatchString(id) && !strings.EqualFold(id, "null") {
		return id
	}
	return strconv.Quote(id)
}
