package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// issue writes a self-signed certificate for 127.0.0.1 to two files.
func issue(t *testing.T, serial int64, certFile, keyFile string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "llmgw"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// trusting is a client that trusts cert alone and follows no redirect.
func trusting(t *testing.T, cert *x509.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func TestTheAdminPlaneIsServedOverTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first := issue(t, 1, certFile, keyFile)
	r := run(t, ", admin_token: "+adminToken+", admin_tls: {cert_file: "+certFile+", key_file: "+keyFile+"}")
	client, base := trusting(t, first), "https://"+r.AdminAddr()

	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 401, "/dashboard/live": 401} {
		if a := r.send(client, "GET", base+path, ""); a.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, a.StatusCode, want)
		}
	}
	login := r.send(client, "POST", base+"/dashboard/login", "token="+adminToken, "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
	cookies := login.Cookies()
	if login.StatusCode != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("the sign-in: got %d with %d cookies", login.StatusCode, len(cookies))
	}
	if c := cookies[0]; !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/dashboard" {
		t.Errorf("the cookie is %v, want Secure, HttpOnly, SameSite=Strict at /dashboard", c)
	}
	if a := r.send(client, "GET", base+"/dashboard/live", "", "Cookie", cookies[0].String()); a.StatusCode != 200 || !strings.Contains(a.body, `"instance"`) {
		t.Errorf("the page's figures: got %d %.200s", a.StatusCode, a.body)
	}
	if a := r.send(http.DefaultClient, "GET", "http://"+r.AdminAddr()+"/healthz", ""); a.StatusCode != 400 {
		t.Errorf("plain HTTP: got %d, want 400", a.StatusCode)
	}

	second := issue(t, 2, certFile, keyFile)
	if a := r.send(client, "POST", base+"/admin/v1/reload", "", "Authorization", "Bearer "+adminToken); a.StatusCode != 200 {
		t.Fatalf("the reload: got %d %s", a.StatusCode, a.body)
	}
	if a := r.send(trusting(t, second), "GET", base+"/healthz", ""); a.StatusCode != 200 || a.TLS.PeerCertificates[0].SerialNumber.Int64() != 2 {
		t.Errorf("a new connection: got %d, want the new certificate", a.StatusCode)
	}
	if a := r.send(client, "GET", base+"/healthz", ""); a.StatusCode != 200 {
		t.Errorf("the connection that was there: got %d", a.StatusCode)
	}

	if err := os.WriteFile(keyFile, []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := r.send(client, "POST", base+"/admin/v1/reload", "", "Authorization", "Bearer "+adminToken); a.StatusCode != 422 {
		t.Errorf("a reload with half a key: got %d, want 422", a.StatusCode)
	}
	if a := r.send(trusting(t, second), "GET", base+"/healthz", ""); a.StatusCode != 200 {
		t.Errorf("after a refused reload: got %d, want the certificate of before", a.StatusCode)
	}
}

func TestAWrongAdminTokenIsCountedAndLoggedOnce(t *testing.T) {
	r := run(t, ", admin_token: "+adminToken+", trusted_proxies: [127.0.0.1/32]")
	url := "http://" + r.AdminAddr()
	for i, from := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"} { // each its first, so that none is held back
		if a := r.send(http.DefaultClient, "GET", url+"/metrics", "", "Authorization", "Bearer wrong", "X-Forwarded-For", from); a.StatusCode != 401 {
			t.Errorf("try %d: got %d, want 401", i, a.StatusCode)
		}
	}
	if a := r.admin("GET", "/metrics", ""); !strings.Contains(a.body, "llmgw_admin_auth_failures_total 3\n") {
		t.Error("the metrics do not have three wrong tokens")
	}
	if log := r.log.String(); strings.Count(log, "wrong tokens at the admin port") != 1 || !strings.Contains(log, `"address":"192.0.2.1"`) || strings.Contains(log, "Bearer") {
		t.Errorf("want one line with the first address:\n%s", log)
	}
}
