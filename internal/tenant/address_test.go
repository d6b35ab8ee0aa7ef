package tenant

import (
	"net/netip"
	"strings"
	"testing"
)

func TestTheClientsAddressIsReadFromTheRightThroughTrustedProxies(t *testing.T) {
	trusted := Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("192.0.2.1/32")}
	for _, s := range []struct {
		what   string
		remote string
		xff    []string
		want   string
	}{
		{"nobody between", "203.0.113.9:5000", nil, "203.0.113.9"},
		{"a stranger who claims to be another", "203.0.113.9:5000", []string{"198.51.100.1"}, "203.0.113.9"},
		{"a trusted proxy that says nothing", "10.0.0.1:5000", nil, "10.0.0.1"},
		{"one trusted proxy", "10.0.0.1:5000", []string{"203.0.113.9"}, "203.0.113.9"},
		{"what the client itself invented", "10.0.0.1:5000", []string{"1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
		{"what it invented, as a line of its own", "10.0.0.1:5000", []string{"1.1.1.1", "203.0.113.9"}, "203.0.113.9"},
		{"a client that claims to be a proxy", "10.0.0.1:5000", []string{"1.1.1.1, 10.0.0.7, 203.0.113.9"}, "203.0.113.9"},
		{"two trusted proxies", "10.0.0.1:5000", []string{"203.0.113.9, 192.0.2.1"}, "203.0.113.9"},
		{"two, each with its line", "10.0.0.1:5000", []string{"203.0.113.9", "10.0.0.2"}, "203.0.113.9"},
		{"a proxy that is not trusted", "10.0.0.1:5000", []string{"203.0.113.9, 192.0.2.2"}, "192.0.2.2"},
		{"trusted proxies all the way", "10.0.0.1:5000", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"tabs and spaces", "10.0.0.1:5000", []string{" \t203.0.113.9\t,10.0.0.2 "}, "203.0.113.9"},
		{"ports", "10.0.0.1:5000", []string{"203.0.113.9:41, 10.0.0.2:42"}, "203.0.113.9"},

		{"garbage ends the reading", "10.0.0.1:5000", []string{"203.0.113.9, unknown"}, "10.0.0.1"},
		{"garbage further left", "10.0.0.1:5000", []string{"203.0.113.9, <script>, 10.0.0.2"}, "10.0.0.2"},
		{"an empty list", "10.0.0.1:5000", []string{""}, "10.0.0.1"},
		{"an empty piece", "10.0.0.1:5000", []string{"203.0.113.9,,10.0.0.2"}, "10.0.0.2"},
		{"a comma at the end", "10.0.0.1:5000", []string{"203.0.113.9,"}, "10.0.0.1"},

		{"IPv6", "[fd00::1]:5000", []string{"2001:db8::9"}, "2001:db8::9"},
		{"IPv6 with a port", "[fd00::1]:5000", []string{"[2001:db8::9]:41"}, "2001:db8::9"},
		{"IPv6 in brackets", "[fd00::1]:5000", []string{"[2001:db8::9]"}, "2001:db8::9"},
		{"IPv6 with a zone", "[fe80::1%eth0]:5000", nil, "fe80::1"},
		{"IPv4 in IPv6 is IPv4, and trusted as such", "[::ffff:10.0.0.1]:5000", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},

		{"no port at the peer", "203.0.113.9", nil, "203.0.113.9"},
		{"no address at the peer", "@", []string{"203.0.113.9"}, "invalid IP"},
		{"nothing at all", "", nil, "invalid IP"},
	} {
		if got := trusted.ClientIP(s.remote, s.xff).String(); got != s.want {
			t.Errorf("%s: got %s, want %s", s.what, got, s.want)
		}
	}
}

func TestWithoutTrustedProxiesThePeerIsTheClient(t *testing.T) {
	if got := Proxies(nil).ClientIP("10.0.0.1:1", []string{"203.0.113.9"}).String(); got != "10.0.0.1" {
		t.Errorf("got %s, want the peer", got)
	}
}

func TestAnAddressIsCountedByWhatOneCustomerHas(t *testing.T) {
	for _, s := range []struct {
		ip, want string
		p        Prefixes
	}{
		{"203.0.113.9", "203.0.113.0/24", Prefixes{V4: 24, V6: 48}},
		{"::ffff:203.0.113.9", "203.0.113.0/24", Prefixes{V4: 24}},
		{"2001:db8:1:2::1", "2001:db8:1::/48", Prefixes{V4: 24, V6: 48}},
		{"2001:db8:1:2::1", "2001:db8:1:2::1", Prefixes{V6: 128}},
	} {
		if got := s.p.Bucket(netip.MustParseAddr(s.ip)); got != s.want {
			t.Errorf("%s by %+v: got %s, want %s", s.ip, s.p, got, s.want)
		}
	}
	for _, s := range []struct{ ip, want string }{
		{"203.0.113.9", "203.0.113.9"},
		{"::ffff:203.0.113.9", "203.0.113.9"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{"2001:db8:1:2::1", "2001:db8:1:2::/64"},
		{"2001:db8:1:3::1", "2001:db8:1:3::/64"},
		{"fe80::1%eth0", "fe80::/64"},
		{"::1", "::/64"},
	} {
		if got := (Prefixes{}).Bucket(netip.MustParseAddr(s.ip)); got != s.want {
			t.Errorf("%s: got %s, want %s", s.ip, got, s.want)
		}
	}
	if got := (Prefixes{}).Bucket(netip.Addr{}); got != "unknown" {
		t.Errorf("no address: got %q, want unknown", got)
	}
}

// FuzzClientIP wants of any header an address that its writer could be believed.
func FuzzClientIP(f *testing.F) {
	f.Add("10.0.0.1:1", "1.1.1.1, 10.0.0.2", "203.0.113.9")
	f.Add("[::1]:1", "[2001:db8::1]:5,", ",,")
	trusted := Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::/64")}
	f.Fuzz(func(t *testing.T, remote, first, second string) {
		peer := parseAddr(remote)
		got := trusted.ClientIP(remote, []string{first, second})
		if !trusted.trust(peer) && got != peer {
			t.Errorf("got %v, though %v is no trusted proxy", got, peer)
		}
		if got.IsValid() && (got.Zone() != "" || got.Is4In6()) {
			t.Errorf("got %v, want a plain address", got)
		}
		if got != peer && !strings.Contains(first+second, ":") && !strings.Contains(first+second, got.String()) {
			t.Errorf("got %v, of which nobody spoke", got)
		}
		Prefixes{}.Bucket(got)
	})
}
