package redisstore

import (
	"regexp"
	"slices"
	"strings"
)

// kinds are the algorithms by their names in the scripts, the commonest first.
var kinds = []string{"BUCKET", "PACING", "CALENDAR", "WINDOW", "LOG", "SLOTS"}

var (
	// verb is one algorithm's part of a function, from its file.
	verb = regexp.MustCompile(`(?ms)^function ([A-Z]+)\.([a-z]+)\([^)]*\)\n(.*?)^end\n`)
	// parent is a line that says whose verbs an algorithm has that it does not have
	// itself.
	parent = regexp.MustCompile(`(?m)^([A-Z]+) = ([A-Z]+)\n`)
	// wanted is where a script wants a verb of all algorithms.
	wanted = regexp.MustCompile(`(?m)^-- dispatch (([a-z]+)\(.*\))\n`)
)

// dispatch writes, for each line "-- dispatch judge(c, cost, now)", a function
// that does what the algorithm of counter c does by that verb. Each algorithm
// has all its verbs in one file, as functions such as BUCKET.judge. They are put
// together here and not looked up in tables by the script: Redis would make
// those tables, and every function in them, anew for each call.
func dispatch(source string) string {
	parents, bodies := make(map[string]string), make(map[string]string)
	for _, m := range parent.FindAllStringSubmatch(source, -1) {
		parents[m[1]] = m[2]
	}
	for _, m := range verb.FindAllStringSubmatch(source, -1) {
		bodies[m[1]+"."+m[2]] = m[3]
	}
	source = parent.ReplaceAllString(verb.ReplaceAllString(source, ""), "")
	return wanted.ReplaceAllStringFunc(source, func(line string) string {
		m := wanted.FindStringSubmatch(line)
		return "local function " + m[1] + "\n  local k = c.kind\n" + branches(m[2], parents, bodies) + "end\n"
	})
}

// branches is a chain of ifs over k: one for all algorithms that do the same by
// the verb called name, and none for those that do nothing.
func branches(name string, parents, bodies map[string]string) string {
	var order []string // bodies, each once
	by := make(map[string][]string)
	do := 0 // algorithms that do anything
	for _, k := range kinds {
		body, ok := "", false
		for of := k; of != "" && !ok; of = parents[of] {
			body, ok = bodies[of+"."+name]
		}
		if !ok {
			continue
		}
		if !slices.Contains(order, body) {
			order = append(order, body)
		}
		by[body] = append(by[body], "k == "+k)
		do++
	}
	var chain strings.Builder
	for i, body := range order {
		word := "  elseif "
		if i == 0 {
			word = "  if "
		}
		if i == len(order)-1 && i > 0 && do == len(kinds) {
			chain.WriteString("  else\n" + body)
			continue
		}
		chain.WriteString(word + strings.Join(by[body], " or ") + " then\n" + body)
	}
	chain.WriteString("  end\n")
	return chain.String()
}
