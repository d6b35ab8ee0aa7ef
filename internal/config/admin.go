package config

// admins reads who may use the admin port. Names and hashes are unique.
func (d *decoder) admins(all *[]Admin) func(*node) {
	names, hashes := map[string]*node{}, map[[32]byte]*node{}
	return setList(d, all, func(a *Admin) func(*node) {
		return func(n *node) {
			d.object(n, fields{
				"name":   set(d, &a.Name, name),
				"sha256": setSecret(d, &a.SHA256, sha256Hex),
				"role":   set(d, &a.Role, oneOf("viewer", "operator", "admin")),
				"teams":  d.adminTeams(&a.Teams),
			})
			d.need(n, "an admin", "name", "sha256", "role")
			if a.Name != "" {
				d.unique(names, a.Name, n.at("name"), "an admin")
			}
			if a.SHA256 != ([32]byte{}) {
				d.hash(hashes, a.SHA256, n.at("sha256"))
			}
		}
	})
}

// adminTeams reads the teams that bound an admin. Each must exist.
func (d *decoder) adminTeams(teams *[]string) func(*node) {
	read := setList(d, teams, func(t *string) func(*node) {
		return func(n *node) {
			set(d, t, name)(n)
			if *t != "" {
				d.teamRefs = append(d.teamRefs, n)
			}
		}
	})
	return func(n *node) {
		read(n)
		if n.kind == list && len(n.items) == 0 {
			d.fail(n, "teams is empty: name the admin's teams, or leave it out for all")
		}
	}
}
