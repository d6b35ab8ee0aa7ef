package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"llmgw/internal/config"
	"llmgw/internal/tenant"
)

// plainID is an id that stands in YAML without quotes.
var plainID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// key makes, lists, changes, rotates and deletes keys of a running gateway. Without
// one, new makes a key for a configuration.
func key(args []string, io streams) int {
	if !asksHelp(args) && (len(args) == 0 || !slices.ContainsFunc(keyActions(), func(a action) bool { return a.name == args[0] })) {
		fmt.Fprintln(io.err, "llmgw key: what can be done with keys is: new, list, change, rotate, delete")
		flags("key", io).Usage()
		return exitUsage
	}
	return act("key", keyActions(), args, io)
}

func keyActions() []action {
	const path = "/admin/v1/keys"
	return []action{
		{"new", nil, newKey},
		{"list", nil, func(f *flag.FlagSet, io streams) func(map[string]string) int {
			o := operate(f)
			return func(map[string]string) int { return o.show(io, http.MethodGet, path, nil) }
		}},
		{"change", []string{"id"}, func(f *flag.FlagSet, io streams) func(map[string]string) int {
			o, details := operate(f), keyDetails(f)
			return func(args map[string]string) int {
				body, err := details()
				if err != nil {
					return problem(io, err)
				}
				return o.show(io, http.MethodPatch, path+"/"+url.PathEscape(args["id"]), body)
			}
		}},
		{"rotate", []string{"id"}, func(f *flag.FlagSet, io streams) func(map[string]string) int {
			o := operate(f)
			grace := f.String("grace", "24h", "how long the old secret works, too")
			return func(args map[string]string) int {
				text, err := o.call(http.MethodPost, path+"/"+url.PathEscape(args["id"])+"/rotate", map[string]string{"grace": *grace})
				return showSecret(io, text, err)
			}
		}},
		{"delete", []string{"id"}, func(f *flag.FlagSet, io streams) func(map[string]string) int {
			o := operate(f)
			return func(args map[string]string) int {
				return o.show(io, http.MethodDelete, path+"/"+url.PathEscape(args["id"]), nil)
			}
		}},
	}
}

// keyDetails adds the flags of what can be changed of a key, and returns the body
// that they make.
func keyDetails(f *flag.FlagSet) func() (map[string]any, error) {
	models := f.String("models", "", "`names` with commas: those of the team's models that the key may use")
	limits := f.String("limits", "", "the key's own limits as `JSON`, as a configuration has them")
	priority := f.String("priority", "", "interactive, standard or batch")
	expires := f.String("expires-at", "", "a `time`, or how long from now on")
	note := f.String("note", "", "what people should know of it")
	return func() (map[string]any, error) {
		body := map[string]any{}
		at, err := inTime("expires-at", *expires)
		if err != nil {
			return nil, err
		}
		if at != nil {
			body["expires_at"] = at
		}
		if *models != "" {
			body["models"] = strings.Split(*models, ",")
		}
		if *limits != "" {
			if !json.Valid([]byte(*limits)) {
				return nil, errors.New("--limits is not JSON")
			}
			body["limits"] = json.RawMessage(*limits)
		}
		if *priority != "" {
			body["priority"] = *priority
		}
		if *note != "" {
			body["note"] = *note
		}
		return body, nil
	}
}

// newKey makes a key: of a running gateway, or for a configuration.
func newKey(f *flag.FlagSet, io streams) func(map[string]string) int {
	o, details := operate(f), keyDetails(f)
	team := f.String("team", "", "the team that the key belongs to")
	id := f.String("id", "", "what the key is called (default: the team's name and a random suffix)")
	return func(map[string]string) int {
		if *team == "" {
			fmt.Fprintln(io.err, "llmgw key new: --team is needed")
			f.Usage()
			return exitUsage
		}
		if o.url == "" {
			return keyForFile(*team, *id, io)
		}
		body, err := details()
		if err != nil {
			return problem(io, err)
		}
		body["team"] = *team
		if *id != "" {
			body["id"] = *id
		}
		text, err := o.call(http.MethodPost, "/admin/v1/keys", body)
		return showSecret(io, text, err)
	}
}

// showSecret writes the secret of a key that was made, and its id.
func showSecret(io streams, answer []byte, err error) int {
	var made struct{ ID, Secret string }
	if err == nil {
		err = json.Unmarshal(answer, &made)
	}
	if err != nil {
		return problem(io, err)
	}
	fmt.Fprintf(io.out, "key: %s\nid: %s\n", made.Secret, made.ID)
	fmt.Fprintln(io.err, "Give the key to the app. It is shown this once.")
	return exitOK
}

// keyForFile makes a key for a configuration: the secret for the app, once, and its
// line for the configuration, which holds the hash alone.
func keyForFile(team, id string, io streams) int {
	if err := config.CheckName(team); err != nil {
		return problem(io, fmt.Errorf("--team: %w", err))
	}
	secret, hash := tenant.NewSecret()
	if id == "" {
		const suffix = 1 + 2*3 // a dash and three bytes
		id = team[:min(len(team), config.LongestName-suffix)] + "-" + hex.EncodeToString(hash[:3])
	}
	if err := config.CheckName(id); err != nil {
		return problem(io, fmt.Errorf("--id: %w", err))
	}
	fmt.Fprintf(io.out, "key: %s\n- {id: %s, sha256: %s}\n", secret, quoted(id), hex.EncodeToString(hash[:]))
	fmt.Fprintf(io.err, "Give the key to the app, and put the second line under keys: of team %q. The key is shown this once.\n", team)
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
