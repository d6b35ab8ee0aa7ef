package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// addressOrNothing is a listenAddress, or empty.
func addressOrNothing(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	return listenAddress(s)
}

// listenAddress reads host:port, of which the host may be empty.
func listenAddress(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", errors.New("is not an address such as 127.0.0.1:8080 or :8080")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", errors.New("has no port from 0 to 65535")
	}
	if strings.ContainsAny(host, "/ \t@") {
		return "", errors.New("is not an address such as 127.0.0.1:8080 or :8080")
	}
	return s, nil
}

// hostPort reads the address of a server.
func hostPort(s string) (string, error) {
	if _, err := listenAddress(s); err != nil || strings.HasPrefix(s, ":") || strings.HasSuffix(s, ":0") {
		return "", errors.New("is not the address of a server, such as 127.0.0.1:6379")
	}
	return s, nil
}

// hostName reads the name of a host, without a port.
func hostName(s string) (string, error) {
	if s == "" || len(s) > 253 || strings.ContainsAny(s, ":/@[] \t*") {
		return "", errors.New("is not the name of a host such as llmgw.example.com, without a port")
	}
	return strings.ToLower(s), nil
}

// prefix reads a network (10.0.0.0/8) or a single address.
func prefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		ip, err := netip.ParseAddr(s)
		if err != nil || ip.Zone() != "" {
			return netip.Prefix{}, errors.New("is not a network such as 10.0.0.0/8 or an address")
		}
		p = netip.PrefixFrom(ip, ip.BitLen())
	}
	if ip := p.Addr(); ip.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(ip.Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// webAddress reads an http or https URL, without what a base cannot have, and
// cuts a slash at its end.
func webAddress(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("is not a URL that begins with http:// or https://")
	case u.User != nil:
		return "", errors.New("has a user name in it; credentials go to their own keys")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return "", errors.New("has a query or a fragment")
	}
	return strings.TrimRight(s, "/"), nil
}

// webAddressOrNothing is a web address, or empty.
func webAddressOrNothing(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	return webAddress(s)
}
