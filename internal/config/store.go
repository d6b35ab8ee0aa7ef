package config

import (
	"time"

	"llmgw/internal/budget"
)

// defaultStore is a store of which nothing is said.
func defaultStore() Store {
	return Store{
		Kind:         "memory",
		Heartbeat:    time.Second,
		ReclaimAfter: 10 * time.Second,
		CrashCharge:  budget.ChargeProgress,
		Leases:       "auto",
		Redis: Redis{
			Addrs:   []string{"127.0.0.1:6379"},
			Prefix:  "llmgw",
			Timeout: 20 * time.Millisecond,
		},
	}
}

func (d *decoder) store(s *Store) func(*node) {
	return func(n *node) {
		before := len(d.problems)
		d.object(n, fields{
			"kind":          set(d, &s.Kind, oneOf("memory", "redis")),
			"heartbeat":     set(d, &s.Heartbeat, duration(10*time.Millisecond, time.Minute)),
			"reclaim_after": set(d, &s.ReclaimAfter, duration(20*time.Millisecond, longest)),
			"crash_charge":  set(d, &s.CrashCharge, oneOf(budget.ChargeProgress, budget.ChargeFull, budget.ChargeNone)),
			"leases":        set(d, &s.Leases, oneOf("auto", "off")),
			"redis":         d.redis(&s.Redis),
		})
		if len(d.problems) > before {
			return
		}
		if n.value("redis") != nil && n.value("kind") == nil {
			d.warn(n, "the redis section is not used: without kind: redis, every instance counts on its own in memory")
		}
		if s.ReclaimAfter < 2*s.Heartbeat {
			d.fail(n.at("reclaim_after"), "reclaim_after is less than two heartbeats: one that is late would count as a crash")
		}
	}
}

func (d *decoder) redis(r *Redis) func(*node) {
	return func(n *node) {
		d.object(n, fields{
			"addrs":       setList(d, &r.Addrs, func(a *string) func(*node) { return set(d, a, hostPort) }),
			"master_name": set(d, &r.MasterName, wordOrNothing),
			"username":    setSecret(d, &r.Username, anyText),
			"password":    setSecret(d, &r.Password, anyText),
			"db":          set(d, &r.DB, small(0, 1<<16)),
			"tls":         set(d, &r.TLS, boolean),
			"prefix":      set(d, &r.Prefix, name),
			"timeout":     set(d, &r.Timeout, duration(time.Millisecond, 10*time.Second)),
		})
		if len(r.Addrs) == 0 {
			d.fail(n.at("addrs"), "addrs names no server")
		}
		if len(r.Addrs) > 1 && r.MasterName == "" && r.DB != 0 {
			d.fail(n.at("db"), "a Redis Cluster (several addrs without master_name) has no db but 0")
		}
		seen := map[string]bool{}
		for i, a := range r.Addrs {
			if a != "" && seen[a] {
				d.fail(n.value("addrs").items[i], "this address is already in the list")
			}
			seen[a] = true
		}
	}
}
