package blackbox

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

func TestTheDataPlaneSpeaksHTTP2WithoutTLS(t *testing.T) {
	w := start(t, setup{})
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	call(t, client, w.URL, 2)
	call(t, http.DefaultClient, w.URL, 1)
}

func TestTheDataPlaneSpeaksTLS(t *testing.T) {
	cert, key, roots := certificate(t)
	w := start(t, setup{server: "tls: {cert_file: " + file(t, "cert.pem", cert) + ", key_file: " + file(t, "key.pem", key) + "}"})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	call(t, client, strings.Replace(w.URL, "http:", "https:", 1), 2)
}

func TestARenewedCertificateIsTakenUp(t *testing.T) {
	cert, key, _ := certificate(t)
	certFile, keyFile := file(t, "cert.pem", cert), file(t, "key.pem", key)
	w := start(t, setup{server: "tls: {cert_file: " + certFile + ", key_file: " + keyFile + "}"})
	renewed, itsKey, roots := certificate(t)
	trusted := func() bool {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(w.URL, "http://"), &tls.Config{RootCAs: roots})
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}
	if trusted() {
		t.Fatal("the first certificate passes for the renewed one")
	}
	if err := os.WriteFile(certFile, []byte(renewed), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := w.Admin("POST", "/admin/v1/reload", ""); a.Status != 422 {
		t.Errorf("with the key of another certificate: got %d, want 422", a.Status)
	}
	if err := os.WriteFile(keyFile, []byte(itsKey), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Eventually("renewed", eventually, trusted)
}

// call makes a call that must succeed with a major version of HTTP.
func call(t *testing.T, client *http.Client, url string, major int) {
	t.Helper()
	r, err := http.NewRequest("POST", url+chat, strings.NewReader(ask("sim-out1", streamed)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	body := new(strings.Builder)
	if err := copyAll(body, resp); err != nil || resp.StatusCode != 200 || resp.ProtoMajor != major || !strings.HasSuffix(body.String(), "data: [DONE]\n\n") {
		t.Errorf("got %d over %s, %v, want 200 over HTTP/%d\n%s", resp.StatusCode, resp.Proto, err, major, body)
	}
}

// certificate makes one for 127.0.0.1, signed by itself.
func certificate(t *testing.T) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	roots = x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(cert)) {
		t.Fatal("the certificate cannot be read")
	}
	return cert, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})), roots
}

func TestTheProvidersLimitsAreShownOnlyWhereTheyShallBe(t *testing.T) {
	for _, s := range []struct {
		server string
		shown  bool
	}{{"", false}, {"expose_upstream_limits: true", true}} {
		t.Run(s.server, func(t *testing.T) {
			set := setup{server: s.server, limits: "{name: tpm, unit: tokens, amount: 60000, per: minute}"}
			set.fake.RPM, set.fake.TPM = 7000, 777_000
			w := start(t, set)
			for _, body := range []string{ask("sim-out1"), ask("sim-out1", streamed)} {
				a := w.Post(secret, chat, body)
				if got := a.Header.Get("X-Upstream-X-Ratelimit-Limit-Tokens"); (got == "777000") != s.shown {
					t.Errorf("the provider's limit of tokens: got %q", got)
				}
				if got := a.Header.Get("X-Ratelimit-Limit-Tokens"); got != "60000" {
					t.Errorf("the team's limit of tokens: got %q, want 60000", got)
				}
				if got := a.Header.Get("X-Ratelimit-Limit-Requests"); got != "" {
					t.Errorf("a limit of requests that the team has not: %q", got)
				}
			}
		})
	}
}

func TestTheLogIsJSONWithoutPromptsAnswersAndSecrets(t *testing.T) {
	w := start(t, setup{})
	a := w.Post(secret, chat, `{"model":"sim-out20","messages":[{"role":"user","content":"XYZZY-PROMPT"}]}`)
	w.Post(secret+"-wrong", chat, ask("sim"))
	w.send("POST", chat+"?key="+secret, "", "{")
	var answer string
	if _, rest, ok := strings.Cut(a.Body, `"content":"`); ok {
		answer, _, _ = strings.Cut(rest, `"`)
	}
	w.Eventually("logged", eventually, func() bool { return strings.Count(w.Log(), `"msg":"request"`) >= 3 })
	for _, hidden := range []string{"XYZZY", secret, "sk-provider", answer} {
		if hidden == "" || strings.Contains(w.Log(), hidden) {
			t.Errorf("the log has %q", hidden)
		}
	}
	for line := range strings.Lines(w.Log()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("the log has a line that is not JSON: %s", line)
		}
	}
}
