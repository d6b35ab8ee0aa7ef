package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"llmgw/internal/budget"
	"llmgw/internal/config"
)

// running is what a gateway says that it runs on, of teams.
type running struct {
	Teams []struct {
		Name   string
		Keys   []string
		Limits []struct {
			Scope, Owner, Name, Unit, Mode string
			Per                            *string
			Configured                     json.Number
		}
	}
}

// showDiff prints what would come (+), go (-) and change (~) at a running gateway if
// it ran on c: teams, their keys and their limits.
func showDiff(c *config.Config, gateway *operator, to streams) int {
	text, err := gateway.call(http.MethodGet, "/admin/v1/teams", nil)
	if err != nil {
		return problem(to, err)
	}
	var now running
	if err := json.Unmarshal(text, &now); err != nil {
		return problem(to, fmt.Errorf("the gateway's answer: %w", err))
	}
	before, after := map[string]string{}, map[string]string{}
	for _, t := range now.Teams {
		before["team "+t.Name] = ""
		for _, k := range t.Keys {
			before["key "+t.Name+"/"+k] = ""
		}
		for _, l := range t.Limits {
			per := ""
			if l.Per != nil {
				per = "/" + *l.Per
			}
			before[strings.Join([]string{"limit", l.Scope, l.Owner, l.Name}, " ")] = strings.Join([]string{l.Unit, l.Configured.String() + per, l.Mode}, " ")
		}
	}
	for i := range c.Teams {
		t := &c.Teams[i]
		after["team "+t.Name] = ""
		limits := slices.Clone(t.Limits)
		for _, k := range t.Keys {
			after["key "+t.Name+"/"+k.ID] = ""
			limits = append(limits, k.Limits...)
		}
		for _, l := range limits {
			after[strings.Join([]string{"limit", string(l.Scope), l.Owner, l.Name}, " ")] = described(l)
		}
	}
	same := true
	for _, name := range slices.Sorted(maps.Keys(union(before, after))) {
		was, is := before[name], after[name]
		_, there := before[name]
		_, wanted := after[name]
		switch {
		case !there:
			fmt.Fprintln(to.out, strings.TrimSpace("+ "+name+" "+is))
		case !wanted:
			fmt.Fprintln(to.out, strings.TrimSpace("- "+name+" "+was))
		case was != is:
			fmt.Fprintf(to.out, "~ %s %s -> %s\n", name, was, is)
		default:
			continue
		}
		same = false
	}
	if same {
		fmt.Fprintln(to.out, "no difference in teams, keys and their limits")
	}
	return exitOK
}

// described is a limit as a gateway tells it.
func described(l *budget.Limit) string {
	per := ""
	if l.Period != "" {
		per = "/" + string(l.Period)
	}
	amount, _ := json.Marshal(l.Unit.Number(l.Amount)) // a number
	return strings.Join([]string{string(l.Unit), string(amount) + per, string(l.Mode)}, " ")
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
