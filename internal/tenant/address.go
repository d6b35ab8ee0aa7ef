package tenant

import (
	"cmp"
	"net/netip"
	"strings"
)

// Proxies are the networks whose X-Forwarded-For is believed. None: nobody's.
type Proxies []netip.Prefix

// ClientIP returns the address that a call came from. remoteAddr is the peer's,
// with or without a port; forwardedFor are the values of X-Forwarded-For, in
// their order.
//
// Each trusted proxy wrote down, at the right end, whom it was called by. So the
// list is read from the right for as long as the one who wrote is trusted; what
// is further left could be anybody's invention. Something that is no address
// ends the reading, at the last that was one. The result is not valid if
// remoteAddr holds no address.
func (p Proxies) ClientIP(remoteAddr string, forwardedFor []string) netip.Addr {
	client := parseAddr(remoteAddr)
	for i := len(forwardedFor) - 1; i >= 0; i-- {
		for rest, more := forwardedFor[i], true; more; {
			if !p.trust(client) {
				return client
			}
			hop := rest
			comma := strings.LastIndexByte(rest, ',')
			if more = comma >= 0; more {
				rest, hop = rest[:comma], rest[comma+1:]
			}
			addr := parseAddr(strings.Trim(hop, " \t"))
			if !addr.IsValid() {
				return client
			}
			client = addr
		}
	}
	return client
}

func (p Proxies) trust(ip netip.Addr) bool {
	for _, network := range p {
		if network.Contains(ip) {
			return true
		}
	}
	return false
}

// parseAddr reads an address with or without a port; an IPv4 address in IPv6
// is the IPv4 address, and a zone is dropped. Anything else is not valid.
func parseAddr(s string) netip.Addr {
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err != nil {
		withPort, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}
		}
		ip = withPort.Addr()
	}
	return ip.Unmap().WithZone("")
}

// Prefixes are how many bits of an address one client has, by its family. 0: all
// 32 of IPv4, and of IPv6 the 64 that are the least that one customer has.
type Prefixes struct{ V4, V6 int }

// Bucket names what an address is counted under: itself, or its network if that
// is larger. Addresses that are not valid share the bucket "unknown".
func (p Prefixes) Bucket(ip netip.Addr) string {
	ip = ip.Unmap().WithZone("")
	bits := cmp.Or(p.V6, 64)
	switch {
	case !ip.IsValid():
		return "unknown"
	case ip.Is4():
		bits = cmp.Or(p.V4, 32)
	}
	if bits >= ip.BitLen() {
		return ip.String()
	}
	network, _ := ip.Prefix(bits) // no error: it is within the address
	return network.String()
}
