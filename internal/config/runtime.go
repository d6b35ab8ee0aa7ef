package config

import (
	"errors"
	"fmt"
	"slices"

	"llmgw/internal/budget"
)

// ParseAmount reads an amount of unit as a file has it: 2000000, 2M, or dollars
// with up to six decimals. It is in budget units, at least 1. The error completes a
// sentence that begins with the value.
func ParseAmount(unit budget.Unit, text string) (int64, error) {
	if unit == budget.USD {
		return dollars(1)(text)
	}
	return amount(1)(text)
}

// KeyLimits reads the limits of a key that was made at run time for the team,
// which c must have: a list, in JSON or YAML, as a file has it. version is that of
// the limits. The error is Errors.
func (c *Config) KeyLimits(team string, key Key, src []byte, version int64) ([]*budget.Limit, error) {
	root, problems := readTree("limits", src)
	d := newDecoder(version)
	d.problems = problems
	var limits []*budget.Limit
	if root != nil {
		d.limitList(root, &limits, d.keyPlace(&Team{Name: team}, &key))
	}
	if len(d.problems) == 0 {
		for _, l := range d.limits {
			c.checkKeyPrices(d, l, team, key)
		}
	}
	if len(d.problems) > 0 {
		return nil, Errors(d.problems)
	}
	return limits, nil
}

// checkKeyPrices fails if a money limit of the key can meet a model without a price.
func (c *Config) checkKeyPrices(d *decoder, l placedLimit, team string, key Key) {
	i := slices.IndexFunc(c.Teams, func(t Team) bool { return t.Name == team })
	for j := range c.Models {
		m := &c.Models[j]
		if i >= 0 && l.Unit == budget.USD && m.Prices == nil && mayUse(c.Teams[i].Models, m, c.configured) && mayUse(key.Models, m, c.configured) {
			d.fail(l.node, "this usd limit can meet the model %q, which has no prices", m.Name)
		}
	}
}

// CheckKey returns what is wrong with the id, the team and the models of a key that
// is to be made at run time, or nil.
func (c *Config) CheckKey(team string, key Key) error {
	if err := CheckName(key.ID); err != nil {
		return fmt.Errorf("id %w", err)
	}
	if !slices.ContainsFunc(c.Teams, func(t Team) bool { return t.Name == team }) {
		return fmt.Errorf("there is no team %q", team)
	}
	for _, m := range key.Models {
		if _, err := modelName(m); err != nil {
			return errors.New("a model " + err.Error())
		}
		if m != anyModel && !c.configured(m) && !c.configured(anyModel) {
			return fmt.Errorf("there is no model %q", m)
		}
	}
	return nil
}
