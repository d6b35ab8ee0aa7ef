package config

import (
	"net"
	"net/netip"
	"time"
)

// longest bounds every configured duration: beyond it a number is a mistake.
const longest = 24 * time.Hour

// defaultServer is a server of which nothing is said.
func defaultServer() Server {
	return Server{
		Listen:         "127.0.0.1:8080",
		AdminListen:    "127.0.0.1:9090",
		MaxBodyBytes:   32 << 20,
		MaxBodiesBytes: 512 << 20,
		ShutdownGrace:  30 * time.Second,
		OnClientGone:   Cancel,
		Drain:          Drain{MaxTime: 30 * time.Second, MaxBytes: 10 << 20},
		MaxWaiting:     1000,
		MaxConnections: 10_000,
		IPPrefix:       IPPrefix{V4: 32, V6: 64},
	}
}

func (d *decoder) server(s *Server) func(*node) {
	return func(n *node) {
		before := len(d.problems)
		d.object(n, fields{
			"listen":                 set(d, &s.Listen, listenAddress),
			"admin_listen":           set(d, &s.AdminListen, listenAddress),
			"admin_token":            setSecret(d, &s.AdminToken, wordOrNothing),
			"admins":                 d.admins(&s.Admins),
			"max_body_bytes":         set(d, &s.MaxBodyBytes, size(1, 1<<30)),
			"max_bodies_bytes":       set(d, &s.MaxBodiesBytes, size(1, 1<<40)),
			"trusted_proxies":        d.proxies(&s.TrustedProxies),
			"drain_delay":            set(d, &s.DrainDelay, duration(0, longest)),
			"shutdown_grace":         set(d, &s.ShutdownGrace, duration(0, longest)),
			"on_client_gone":         set(d, &s.OnClientGone, oneOf(Cancel, DrainAnswer, ChargeEstimate)),
			"drain":                  d.drain(&s.Drain),
			"max_waiting":            set(d, &s.MaxWaiting, small(0, 1_000_000)),
			"expose_upstream_limits": set(d, &s.ExposeUpstreamLimits, boolean),
			"tls":                    d.tls(&s.TLS),
			"admin_tls":              d.tls(&s.AdminTLS),

			"admin_hosts":      setList(d, &s.AdminHosts, func(h *string) func(*node) { return set(d, h, hostName) }),
			"ip_prefix":        d.ipPrefix(&s.IPPrefix),
			"ratelimit_listen": set(d, &s.RatelimitListen, addressOrNothing),
			"ratelimit_tls":    d.tls(&s.RatelimitTLS),
			"socket":           set(d, &s.Socket, wordOrNothing),
			"socket_key":       set(d, &s.SocketKey, wordOrNothing),

			"max_connections_per_address": set(d, &s.MaxConnections, small(0, 1_000_000)),
		})
		if len(d.problems) > before {
			return
		}
		if len(s.Socket) > longestSocket {
			d.fail(n.at("socket"), "socket is a path of at most %d bytes", longestSocket)
		}
		if s.SocketKey != "" && s.Socket == "" {
			d.fail(n.at("socket_key"), "socket_key is the key of requests over a socket: set socket, too")
		}
		if s.Listen == s.AdminListen && !anyPort(s.Listen) {
			d.fail(n.at("admin_listen"), "admin_listen is the address of listen: the two are separate ports")
		}
		if least := 3 * s.MaxBodyBytes; n.at("max_bodies_bytes") == n && s.MaxBodiesBytes < least {
			s.MaxBodiesBytes = least
		} else if s.MaxBodiesBytes < least {
			d.fail(n.at("max_bodies_bytes"), "max_bodies_bytes must be at least three times max_body_bytes: a compressed body of that size needs as much")
		}
		if s.AdminToken == "" && len(s.Admins) == 0 && !loopback(s.AdminListen) {
			d.warn(n.at("admin_listen"), "%s can be reached from other machines, and without an admin_token or admins anybody there can change blocks and limits", show(n.at("admin_listen")))
		}
	}
}

// longestSocket is the longest path of a unix socket that every system takes.
const longestSocket = 100

// anyPort tells whether the system chooses the port.
func anyPort(address string) bool {
	_, port, _ := net.SplitHostPort(address)
	return port == "0"
}

// loopback tells whether an address is this machine's own.
func loopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip, _ := netip.ParseAddr(host)
	return host == "localhost" || ip.IsLoopback()
}

func (d *decoder) proxies(dst *[]netip.Prefix) func(*node) {
	read := setList(d, dst, func(p *netip.Prefix) func(*node) { return set(d, p, prefix) })
	return func(n *node) {
		read(n)
		for i, item := range n.items {
			if p := (*dst)[i]; p.IsValid() && p.Bits() == 0 {
				d.warn(item, "%s trusts everybody: any client can claim any address", show(item))
			}
		}
	}
}

func (d *decoder) drain(v *Drain) func(*node) {
	return func(n *node) {
		d.object(n, fields{
			"max_time":  set(d, &v.MaxTime, duration(0, longest)),
			"max_bytes": set(d, &v.MaxBytes, size(0, 1<<40)),
		})
	}
}

func (d *decoder) ipPrefix(p *IPPrefix) func(*node) {
	return func(n *node) {
		d.object(n, fields{
			"v4": set(d, &p.V4, small(8, 32)),
			"v6": set(d, &p.V6, small(16, 128)),
		})
	}
}

func (d *decoder) tls(t *TLS) func(*node) {
	return func(n *node) {
		d.object(n, fields{
			"cert_file": set(d, &t.CertFile, anyText),
			"key_file":  set(d, &t.KeyFile, anyText),
		})
		if (t.CertFile == "") != (t.KeyFile == "") {
			d.fail(n, "tls needs cert_file and key_file, or neither")
		}
	}
}

func (d *decoder) telemetry(t *Telemetry) func(*node) {
	return func(n *node) {
		d.object(n, fields{
			"otlp_endpoint":    setSecret(d, &t.OTLPEndpoint, webAddressOrNothing),
			"max_label_values": set(d, &t.MaxLabelValues, small(1, 1_000_000)),
		})
	}
}
