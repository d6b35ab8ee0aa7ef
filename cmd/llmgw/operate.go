package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// operator calls the admin port of a running gateway.
type operator struct {
	url, token string
}

// operate adds the flags that say which gateway, and returns it when they are read.
func operate(f *flag.FlagSet) *operator {
	o := &operator{}
	f.StringVar(&o.url, "admin", os.Getenv("LLMGW_ADMIN"), "the `URL` of the gateway's admin port (default: LLMGW_ADMIN)")
	f.StringVar(&o.token, "token", "", "the `token` for it (default: LLMGW_ADMIN_TOKEN, which other users of this machine cannot see)")
	return o
}

// callTimeout bounds a call of the admin port.
const callTimeout = 30 * time.Second

// call sends body, if it is not nil, and returns the answer's body. The error is what
// the gateway says is wrong.
func (o *operator) call(method, path string, body any, header ...string) ([]byte, error) {
	if o.url == "" {
		return nil, errors.New("--admin is needed: the URL of the gateway's admin port, such as http://127.0.0.1:9090")
	}
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(context.Background(), method, strings.TrimRight(o.url, "/")+path, sent)
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	token := o.token
	if token == "" {
		token = os.Getenv("LLMGW_ADMIN_TOKEN")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := (&http.Client{Timeout: callTimeout}).Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // only read from
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < 300 {
		return text, nil
	}
	var refusal struct{ Error struct{ Message string } }
	if json.Unmarshal(text, &refusal) != nil || refusal.Error.Message == "" {
		return nil, fmt.Errorf("the gateway answers %s", answer.Status)
	}
	return nil, fmt.Errorf("the gateway answers %s: %s", answer.Status, refusal.Error.Message)
}

// show calls and writes the answer, indented, to the output. It returns the exit code.
func (o *operator) show(io streams, method, path string, body any, header ...string) int {
	text, err := o.call(method, path, body, header...)
	if err != nil {
		return problem(io, err)
	}
	if len(text) == 0 {
		fmt.Fprintln(io.out, "done")
		return exitOK
	}
	var indented bytes.Buffer
	if json.Indent(&indented, bytes.TrimSpace(text), "", "  ") != nil {
		indented.Write(text)
	}
	fmt.Fprintln(io.out, indented.String())
	return exitOK
}

// action is one thing to do of a command: llmgw NAME ACTION. The first of a command's
// is done where none is named.
type action struct {
	name string
	// args are what must be said, as flags or in this order without them.
	args []string
	// set adds the other flags and returns what does it, by the values of args.
	set func(f *flag.FlagSet, io streams) func(args map[string]string) int
}

// act runs the action that args begin with.
func act(command string, actions []action, args []string, io streams) int {
	chosen := actions[0]
	for _, a := range actions {
		if len(args) > 0 && args[0] == a.name {
			chosen, args = a, args[1:]
			break
		}
	}
	f := flags(command, io)
	given := map[string]*string{}
	for _, name := range chosen.args {
		given[name] = f.String(name, "", "may stand without its name: "+strings.Join(chosen.args, " "))
	}
	do := chosen.set(f, io)
	if code, stop := parsed(f, args, 0, len(chosen.args), io); stop {
		return code
	}
	rest, values := f.Args(), map[string]string{}
	for _, name := range chosen.args {
		if *given[name] == "" && len(rest) > 0 {
			*given[name], rest = rest[0], rest[1:]
		}
		values[name] = *given[name]
		if values[name] == "" {
			fmt.Fprintf(io.err, "llmgw %s %s: --%s is needed\n", command, chosen.name, name)
			f.Usage()
			return exitUsage
		}
	}
	if len(rest) > 0 {
		fmt.Fprintf(io.err, "llmgw %s %s: there is more than %s\n", command, chosen.name, strings.Join(chosen.args, " "))
		return exitUsage
	}
	return do(values)
}

// inTime is text, which is a time or how long from now, as a time; nil: there is none.
func inTime(name, text string) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return &t, nil
	}
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		d, err = time.ParseDuration(days + "h")
		d *= 24
	}
	if err != nil || d <= 0 {
		return nil, fmt.Errorf("--%s: %q is neither a time such as 2026-12-24T00:00:00Z nor one from now on such as 36h or 7d", name, text)
	}
	t := time.Now().Add(d).UTC().Truncate(time.Second)
	return &t, nil
}

// limitPath is the part of a path that names a limit, with its query.
func limitPath(limit, action, value, team string) string {
	query := url.Values{}
	if value != "" {
		query.Set("value", value)
	}
	if team != "" {
		query.Set("team", team)
	}
	path := url.PathEscape(limit) + action
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// which adds the flags that pick one of several counters.
func which(f *flag.FlagSet) (value, team *string) {
	return f.String("value", "", "the `user`, address or model, of a limit that counts by it (default: all)"),
		f.String("team", "", "the `team`, if several have a limit of this name")
}

// credit raises a budget for the rest of its period.
func credit(args []string, io streams) int {
	return act("credit", []action{{"give", []string{"limit", "amount"}, func(f *flag.FlagSet, io streams) func(map[string]string) int {
		o := operate(f)
		value, team := which(f)
		reason := f.String("reason", "", "why; the audit shows it")
		until := f.String("expires-at", "", "when it ends before the period does: a `time`, or how long from now on")
		once := f.String("idempotency-key", "", "a `key` of this credit: a repeated command gives it once")
		return func(args map[string]string) int {
			expires, err := inTime("expires-at", *until)
			if err != nil {
				return problem(io, err)
			}
			body := map[string]any{"limit": args["limit"], "amount": args["amount"], "reason": *reason}
			if *value != "" {
				body["value"] = *value
			}
			if expires != nil {
				body["expires_at"] = expires
			}
			path := "/admin/v1/credits"
			if *team != "" {
				path += "?team=" + url.QueryEscape(*team)
			}
			if *once != "" {
				return o.show(io, http.MethodPost, path, body, "Idempotency-Key", *once)
			}
			return o.show(io, http.MethodPost, path, body)
		}
	}}}, args, io)
}

// override puts another amount in the place of a limit's, ends that, or begins the
// limit's counter anew.
func override(args []string, io streams) int {
	const path = "/admin/v1/overrides/"
	return act("override", []action{
		{"set", []string{"limit", "amount"}, func(f *flag.FlagSet, io streams) func(map[string]string) int {
			o := operate(f)
			value, team := which(f)
			until := f.String("until", "", "a `time`, or how long from now on")
			reason := f.String("reason", "", "why; the audit shows it")
			return func(args map[string]string) int {
				at, err := inTime("until", *until)
				if err != nil {
					return problem(io, err)
				}
				body := map[string]any{"amount": args["amount"], "until": at, "reason": *reason}
				return o.show(io, http.MethodPut, path+limitPath(args["limit"], "", *value, *team), body)
			}
		}},
		{"remove", []string{"limit"}, func(f *flag.FlagSet, io streams) func(map[string]string) int {
			o := operate(f)
			value, team := which(f)
			return func(args map[string]string) int {
				return o.show(io, http.MethodDelete, path+limitPath(args["limit"], "", *value, *team), nil)
			}
		}},
		{"reset", []string{"limit"}, func(f *flag.FlagSet, io streams) func(map[string]string) int {
			o := operate(f)
			value, team := which(f)
			reason := f.String("reason", "", "why; the audit shows it")
			return func(args map[string]string) int {
				path := "/admin/v1/limits/" + limitPath(args["limit"], "/reset", *value, *team)
				return o.show(io, http.MethodPost, path, map[string]any{"reason": *reason})
			}
		}},
	}, args, io)
}

// block keeps somebody out, or lets them in again.
func block(args []string, io streams) int {
	const path = "/admin/v1/blocks"
	return act("block", []action{
		{"add", []string{"scope", "value"}, func(f *flag.FlagSet, io streams) func(map[string]string) int {
			o := operate(f)
			until := f.String("expires-at", "", "a `time`, or how long from now on (default: never)")
			reason := f.String("reason", "", "why; who is blocked reads it")
			force := f.Bool("force", false, "also a key or a team that is not configured")
			return func(args map[string]string) int {
				at, err := inTime("expires-at", *until)
				if err != nil {
					return problem(io, err)
				}
				body := map[string]any{"scope": args["scope"], "value": args["value"], "reason": *reason, "force": *force}
				if at != nil {
					body["expires_at"] = at
				}
				return o.show(io, http.MethodPost, path, body)
			}
		}},
		{"list", nil, func(f *flag.FlagSet, io streams) func(map[string]string) int {
			o := operate(f)
			return func(map[string]string) int { return o.show(io, http.MethodGet, path, nil) }
		}},
		{"remove", []string{"id"}, func(f *flag.FlagSet, io streams) func(map[string]string) int {
			o := operate(f)
			return func(args map[string]string) int {
				return o.show(io, http.MethodDelete, path+"/"+url.PathEscape(args["id"]), nil)
			}
		}},
	}, args, io)
}
