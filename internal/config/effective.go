package config

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"llmgw/internal/budget"
)

// Effective writes, as a table for people, every limit that a call with each
// key can meet: the gateway's, those of the models that its team may use, the
// team's and its own; and the prices of all models. It returns the error of w.
func Effective(w io.Writer, c *Config) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row(t, "KEY", "TEAM", "LIMIT", "SCOPE", "UNIT", "AMOUNT", "BURST", "ALGORITHM", "ON_EXCEED", "WHEN_STORE_DOWN", "MODE")
	for i := range c.Teams {
		team := &c.Teams[i]
		if len(team.Keys) == 0 {
			row(t, "(no key)", team.Name)
		}
		for j := range team.Keys {
			key := &team.Keys[j]
			limits := c.limitsOf(team, key)
			for _, l := range limits {
				row(t, append([]string{key.ID, team.Name}, cells(l)...)...)
			}
			if len(limits) == 0 {
				row(t, key.ID, team.Name, "(none)")
			}
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return prices(w, c)
}

// prices writes what each model costs, if any has prices: dollars per million
// tokens, and per call.
func prices(w io.Writer, c *Config) error {
	if !slices.ContainsFunc(c.Models, func(m Model) bool { return m.Prices != nil }) {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row(t, "")
	row(t, "MODEL", "PRICES")
	for i := range c.Models {
		if m := &c.Models[i]; m.Prices != nil {
			row(t, m.Name, m.Prices.String())
		}
	}
	return t.Flush()
}

// row writes one line. Errors of the writer below come back from Flush.
func row(t *tabwriter.Writer, cells ...string) {
	fmt.Fprintln(t, strings.Join(cells, "\t"))
}

// limitsOf lists the limits that calls with the key can meet, from the widest.
func (c *Config) limitsOf(t *Team, k *Key) []*budget.Limit {
	limits := append([]*budget.Limit(nil), c.Limits...)
	for i := range c.Models {
		if m := &c.Models[i]; mayUse(t.Models, m, c.configured) && mayUse(k.Models, m, c.configured) {
			limits = append(limits, m.Limits...)
		}
	}
	limits = append(limits, t.Limits...)
	return append(limits, k.Limits...)
}

// configured tells whether there is a model of this name.
func (c *Config) configured(name string) bool {
	return slices.ContainsFunc(c.Models, func(m Model) bool { return m.Name == name })
}

// cells are the columns of a limit.
func cells(l *budget.Limit) []string {
	per := ""
	if l.Period != "" {
		per = "/" + string(l.Period)
	}
	burst := "-"
	if l.Algorithm == budget.TokenBucket {
		burst = l.Unit.Text(l.Burst)
	}
	exceed := "reject"
	if l.Wait {
		exceed = "wait " + l.MaxWait.String()
	}
	mode := string(l.Mode)
	if l.Candidate != 0 {
		mode += ", candidate " + l.Unit.Text(l.Candidate)
	}
	return []string{written(l), string(l.Scope), string(l.Unit), l.Unit.Text(l.Amount) + per, burst,
		string(l.Algorithm), exceed, string(l.WhenStoreDown), mode}
}

// written names a limit by what it is written under.
func written(l *budget.Limit) string { return l.Place + "/" + l.Name }
