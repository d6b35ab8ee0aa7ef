package config

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

func TestAmounts(t *testing.T) {
	for _, s := range []struct {
		text string
		want int64 // -1: an error
	}{
		{"1", 1}, {"2000000", 2_000_000}, {"2_000_000", 2_000_000}, {"2M", 2_000_000}, {"100k", 100_000},
		{"1_0k", 10_000}, {"007", 7}, {"9007199254740991", maxAmount}, {"9007199254M", 9_007_199_254_000_000},
		{"0", -1}, {"0k", -1}, {"-1", -1}, {"+1", -1}, {"", -1}, {"k", -1}, {"M", -1}, {"1.5M", -1}, {"1e3", -1}, {"0x1", -1},
		{"1 000", -1}, {"1,000", -1}, {"_1", -1}, {"1_", -1}, {"1__0", -1}, {"1K", -1}, {"1m", -1}, {"1kk", -1}, {"1_k", -1},
		{"9007199254740992", -1}, {"9007199254741k", -1}, {"99999999999999999999", -1}, {"١", -1},
	} {
		got, err := amount(1)(s.text)
		if err != nil {
			got = -1
		}
		if got != s.want {
			t.Errorf("%q: got %d (%v), want %d", s.text, got, err, s.want)
		}
	}
}

func TestDollarsAreMicroDollars(t *testing.T) {
	for _, s := range []struct {
		text string
		want int64 // -1: an error
	}{
		{"500", 500_000_000}, {"0.25", 250_000}, {"0.000001", 1}, {"1.5", 1_500_000}, {"1_000.10", 1_000_100_000},
		{"2k", 2_000_000_000}, {"1M", 1_000_000_000_000}, {"9007199254", 9_007_199_254_000_000}, {"9007199253.999999", 9_007_199_253_999_999},
		{"0", -1}, {"0.0", -1}, {"0.0000001", -1}, {"1.", -1}, {".5", -1}, {"-1", -1}, {"-0.5", -1}, {"1.-5", -1}, {"1.5k", -1}, {"1e3", -1},
		{"$5", -1}, {"1.2.3", -1}, {"1.1_1", -1}, {"9007199255", -1}, {"9007199254.1", -1}, {"99999999999999999999.1", -1}, {"", -1},
	} {
		got, err := dollars(1)(s.text)
		if err != nil {
			got = -1
		}
		if got != s.want {
			t.Errorf("%q: got %d (%v), want %d", s.text, got, err, s.want)
		}
	}
}

func TestDurationsAndSizes(t *testing.T) {
	for _, s := range []struct {
		text string
		want time.Duration // -1: an error
	}{
		{"250ms", 250 * time.Millisecond}, {"10s", 10 * time.Second}, {"5m", 5 * time.Minute}, {"1h30m", 90 * time.Minute}, {"0s", 0}, {"0", 0}, {"1.5s", 1500 * time.Millisecond},
		{"10", -1}, {"10 s", -1}, {"-1s", -1}, {"+1s", -1}, {"1d", -1}, {"", -1}, {"25h", -1}, {"9999999999h", -1},
	} {
		got, err := duration(0, longest)(s.text)
		if err != nil {
			got = -1
		}
		if got != s.want {
			t.Errorf("%q: got %v (%v), want %v", s.text, got, err, s.want)
		}
	}
	for _, s := range []struct {
		text string
		want int64 // -1: an error
	}{
		{"2048", 2048}, {"1KiB", 1024}, {"32MiB", 32 << 20}, {"1GiB", 1 << 30}, {"1_024", 1024},
		{"1023", -1}, {"1025MiB", -1}, {"2GiB", -1}, {"1.5MiB", -1}, {"32MB", -1}, {"32 MiB", -1}, {"32mib", -1}, {"MiB", -1}, {"-1KiB", -1}, {"", -1}, {"9223372036854775807GiB", -1},
	} {
		got, err := size(1<<10, 1<<30)(s.text)
		if err != nil {
			got = -1
		}
		if got != s.want {
			t.Errorf("%q: got %d (%v), want %d", s.text, got, err, s.want)
		}
	}
}

func TestAddressesAndNetworks(t *testing.T) {
	for _, s := range []struct {
		text           string
		listen, server bool
	}{
		{"127.0.0.1:8080", true, true}, {"localhost:1", true, true}, {"[::1]:80", true, true}, {":8080", true, false}, {"127.0.0.1:0", true, false},
		{"127.0.0.1", false, false}, {"8080", false, false}, {":http", false, false}, {":-1", false, false}, {"::1:80", false, false},
		{"http://a:80", false, false}, {"a b:80", false, false}, {"u@h:80", false, false}, {"", false, false},
	} {
		_, err := listenAddress(s.text)
		_, err2 := hostPort(s.text)
		if (err == nil) != s.listen || (err2 == nil) != s.server {
			t.Errorf("%q: got %v and %v, want %v to listen on and %v of a server", s.text, err, err2, s.listen, s.server)
		}
	}
	for _, s := range []struct{ text, want string }{
		{"10.0.0.0/8", "10.0.0.0/8"}, {"10.1.2.3/8", "10.0.0.0/8"}, {"10.1.2.3", "10.1.2.3/32"}, {"::1", "::1/128"}, {"2001:db8::1/32", "2001:db8::/32"},
		{"::ffff:10.0.0.1", "10.0.0.1/32"}, {"::ffff:10.0.0.0/104", "10.0.0.0/8"}, {"0.0.0.0/0", "0.0.0.0/0"}, {"2001:db8::/112", "2001:db8::/112"}, {"::ffff:0:0/96", "0.0.0.0/0"},
		{"10.0.0.0/33", ""}, {"10.0.0/8", ""}, {"localhost", ""}, {"fe80::1%eth0", ""}, {"fe80::%eth0/64", ""}, {"", ""},
	} {
		got, err := prefix(s.text)
		if err != nil {
			got = netip.Prefix{}
		}
		if want, _ := netip.ParsePrefix(s.want); got != want {
			t.Errorf("%q: got %v (%v), want %v", s.text, got, err, want)
		}
	}
}

func TestHints(t *testing.T) {
	keys := []string{"listen", "admin_listen", "amount", "per", "mode", "burst", "bank"}
	for _, s := range []struct{ word, want string }{
		{"lisen", "listen"}, {"lsiten", "listen"}, {"LISTEN", "listen"}, {"adminlisten", "admin_listen"}, {"amout", "amount"},
		{"pre", "per"}, {"mod", "mode"}, {"bunk", "bank"},
		{"", ""}, {"x", ""}, {"capacity", ""}, {fmt.Sprintf("%0100d", 1), ""},
	} {
		want := ""
		if s.want != "" {
			want = fmt.Sprintf(" (did you mean %q?)", s.want)
		}
		if got := didYouMean(s.word, keys); got != want {
			t.Errorf("%q: got %q, want %q", s.word, got, want)
		}
	}
}
