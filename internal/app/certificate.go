package app

import (
	"crypto/tls"
	"fmt"

	"llmgw/internal/config"
)

// loadCertificate reads the data plane's certificate; nil: it speaks plain HTTP.
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

// tlsConfig serves the certificate that is in force when a connection begins.
func (a *App) tlsConfig() *tls.Config {
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.certificate.Load(), nil },
		MinVersion:     tls.VersionTLS12,
	}
}
