package config

import (
	"errors"

	"llmgw/internal/tokens"
)

// prices reads what a model costs. Input and output are required; every other
// class of tokens costs what it is a part of does, unless it is here too.
func (d *decoder) prices(dst **tokens.Prices) func(*node) {
	return func(n *node) {
		p := new(tokens.Prices)
		f := d.classes(p.Set)
		f["per_call"] = func(n *node) { d.object(n, d.pieces(p)) }
		f["tiers"] = func(n *node) { d.object(n, d.tiers(p)) }
		f["above"] = func(n *node) { d.above(p, n) }
		d.object(n, f)
		d.need(n, "a price list", "input", "output")
		p.Fill()
		*dst = p
	}
}

// classes are the keys of the classes of tokens, whose prices are passed to set.
func (d *decoder) classes(put func(tokens.Class, tokens.Rate)) fields {
	f := fields{}
	for c := range tokens.Classes() {
		f[c.String()] = func(n *node) {
			r := noPrice
			if set(d, &r, price)(n); r != noPrice {
				d.checkPrice(n, r)
				put(c, r)
			}
		}
	}
	return f
}

// noPrice marks a price that could not be read.
const noPrice tokens.Rate = -1

// leastPrice is a tenth of the lowest price of a million tokens that any
// provider has on its list, those of cached input included. A lower one is
// hardly meant: it is a price of one token, or of a thousand.
const leastPrice = tokens.One / 1000

func (d *decoder) checkPrice(n *node, r tokens.Rate) {
	if r > 0 && r < leastPrice {
		d.warn(n, "%s is far below the lowest list price of any provider: prices are dollars per million tokens, "+
			"and this one makes a million tokens cost %s dollars", show(n), r)
	}
}

func (d *decoder) pieces(p *tokens.Prices) fields {
	f := fields{}
	for k := range tokens.Pieces() {
		f[k.String()] = func(n *node) {
			r := noPrice
			if set(d, &r, callPrice)(n); r != noPrice {
				p.SetPiece(k, r)
			}
		}
	}
	return f
}

func (d *decoder) tiers(p *tokens.Prices) fields {
	f := fields{}
	for t := range tokens.AllTiers() {
		f[t.String()] = func(n *node) {
			r := noPrice
			if set(d, &r, factor)(n); r != noPrice {
				p.SetTier(t, r)
			}
		}
	}
	return f
}

// above reads the prices of requests that read more than so many tokens.
func (d *decoder) above(p *tokens.Prices, n *node) {
	if !d.is(n, object) {
		return
	}
	seen := map[tokens.Count]*node{}
	for _, e := range n.entries {
		over, err := count(1)(e.key.text)
		if err != nil {
			d.fail(e.key, "unknown key %s: a bound is a number of tokens, such as 200000 or 200k", show(e.key))
			continue
		}
		if first, twice := seen[over]; twice {
			d.fail(e.key, "the key %s is already there, at %s", show(e.key), first.seenFrom(e.key))
			continue
		}
		seen[over] = e.key
		d.object(e.value, d.classes(func(c tokens.Class, r tokens.Rate) { p.SetAbove(over, c, r) }))
		if e.value.kind == object && len(e.value.entries) == 0 {
			d.fail(e.value, "a bound needs at least one price")
		}
	}
}

// price reads dollars per million tokens.
func price(s string) (tokens.Rate, error) {
	r, err := tokens.ParseRate(s)
	if err != nil { // its text holds the value
		return 0, errors.New("is not a decimal from 0 to 1000000 with at most six decimals: a price in dollars per million tokens")
	}
	return r, nil
}

// callPrice reads dollars per call.
func callPrice(s string) (tokens.Rate, error) {
	r, err := tokens.ParseRate(s)
	if err != nil || r > 1000*tokens.One {
		return 0, errors.New("is not a decimal from 0 to 1000 with at most six decimals: a price in dollars per call")
	}
	return r, nil
}

// factor reads what the prices of a tier are multiplied by.
func factor(s string) (tokens.Rate, error) {
	r, err := tokens.ParseRate(s)
	if err != nil || r == 0 || r > tokens.MaxFactor {
		return 0, errors.New("is not a factor above 0 and at most 1000 with at most six decimals")
	}
	return r, nil
}
