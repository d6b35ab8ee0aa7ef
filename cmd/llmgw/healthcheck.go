package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// probeTimeout bounds one health check.
const probeTimeout = 5 * time.Second

// healthcheck asks a gateway once whether requests should come to it: images have
// no shell and no curl to ask with. The exit code is 0 for a 2xx and else 1.
func healthcheck(args []string, io streams) int {
	f := flags("healthcheck", io)
	if code, stop := parsed(f, args, 0, 1, io); stop {
		return code
	}
	at := cmp.Or(f.Arg(0), readyURL(os.Getenv("LLMGW_LISTEN")))
	if err := probe(at); err != nil {
		return problem(io, err)
	}
	return exitOK
}

// readyURL is where a gateway that listens on address of this machine says whether
// it is ready. An address without a host is reached by loopback.
func readyURL(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = "", "8080"
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/readyz"
}

// probe asks at once, follows no redirect, and returns an error for all but a 2xx.
// A certificate counts only from elsewhere: on loopback it has another name.
func probe(at string) error {
	u, err := url.Parse(at)
	if err != nil || !strings.HasPrefix(u.Scheme, "http") || u.Host == "" {
		return fmt.Errorf("%q is not a URL; write one such as http://127.0.0.1:8080/readyz", at)
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	ip := net.ParseIP(u.Hostname())
	loopback := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	client := http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: loopback}}, //nolint:gosec // see above
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // only read from
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers %s", at, answer.Status)
	}
	return nil
}
