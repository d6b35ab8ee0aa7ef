package main

import (
	"encoding/hex"
	"fmt"
	"regexp"

	"llmgw/internal/tenant"
)

// keyID is what a key may be called in the configuration.
var keyID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

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
	secret, hash := tenant.NewSecret()
	if *id == "" {
		*id = *team + "-" + hex.EncodeToString(hash[:3])
	}
	if !keyID.MatchString(*id) {
		return problem(io, fmt.Errorf("%q cannot be a key's id: use letters, digits, dots, dashes and underscores, at most 64", *id))
	}
	fmt.Fprintf(io.out, "key: %s\n- {id: %s, sha256: %s}\n", secret, *id, hex.EncodeToString(hash[:]))
	fmt.Fprintf(io.err, "Give the key to the app, and put the second line under keys: of team %q. The key is shown this once.\n", *team)
	return exitOK
}
