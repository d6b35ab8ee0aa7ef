package app

import (
	"crypto/tls"
	"fmt"

	"llmgw/internal/config"
)

// loadCertificate reads a plane's certificate; nil: it speaks plain HTTP.
func loadCertificate(t config.TLS) (*tls.Certificate, error) {
	if t.CertFile == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("load the certificate: %w", err)
	}
	return &cert, nil
}

// renew puts a plane's new certificate in force for the connections that begin
// from now on. It reports whether the plane speaks TLS as the file wants it:
// that changes with a restart only.
func (s *server) renew(cert *tls.Certificate) bool {
	if (s.certificate.Load() == nil) != (cert == nil) {
		return false
	}
	s.certificate.Store(cert)
	return true
}

// tlsConfig serves the certificate that is in force when a connection begins.
func (s *server) tlsConfig() *tls.Config {
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate.Load(), nil },
		MinVersion:     tls.VersionTLS12,
	}
}
