package config

import (
	"crypto/sha256"
)

func (d *decoder) team(t *Team) func(*node) {
	return func(n *node) {
		n = d.planned(n)
		*t = Team{Weight: 1}
		var limits, keys *node
		d.object(n, fields{
			"name":   set(d, &t.Name, name),
			"plan":   set(d, &t.Plan, name),
			"models": d.modelNamesOf(&t.Models),
			"weight": set(d, &t.Weight, small(1, 1_000_000)),
			"limits": keep(&limits),
			"keys":   keep(&keys),
		})
		d.need(n, "a team", "name")
		if t.Name != "" {
			d.unique(d.teamNames, t.Name, n.at("name"), "a team")
		}
		d.limitList(limits, &t.Limits, d.teamPlace(t))
		if keys != nil {
			setList(d, &t.Keys, func(k *Key) func(*node) { return d.key(t, k) })(keys)
		}
	}
}

// modelNamesOf reads which models a team or a key may use; each must exist.
func (d *decoder) modelNamesOf(models *[]string) func(*node) {
	return setList(d, models, func(m *string) func(*node) {
		return func(n *node) {
			set(d, m, modelName)(n)
			if *m != "" {
				d.modelRefs = append(d.modelRefs, n)
			}
		}
	})
}

func (d *decoder) key(t *Team, k *Key) func(*node) {
	return func(n *node) {
		var limits *node
		n = d.planned(n)
		d.object(n, fields{
			"id":     set(d, &k.ID, name),
			"plan":   set(d, &k.Plan, name),
			"models": d.modelNamesOf(&k.Models),
			"sha256": setSecret(d, &k.SHA256, sha256Hex),
			"limits": keep(&limits),
		})
		d.need(n, "a key", "id", "sha256")
		if k.ID != "" {
			d.unique(d.keyIDs, k.ID, n.at("id"), "a key")
		}
		if k.SHA256 != ([32]byte{}) {
			d.hash(d.hashes, k.SHA256, n.at("sha256"))
		}
		d.limitList(limits, &k.Limits, d.keyPlace(t, k))
	}
}

// hash fails if another one seen has the hash, or everybody could guess its secret.
func (d *decoder) hash(seen map[[32]byte]*node, h [32]byte, n *node) {
	if h == sha256.Sum256(nil) {
		d.fail(n, "this is the hash of nothing: hash the key itself")
		return
	}
	if first, twice := seen[h]; twice {
		d.fail(n, "this hash is already another key's, at %s", first.seenFrom(n))
		return
	}
	seen[h] = n
}
