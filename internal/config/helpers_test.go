package config

import (
	"crypto/sha256"
	"errors"
	"testing"
)

func mustHash(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

// mustParse parses a text that is right.
func mustParse(t *testing.T, src string) *Config {
	t.Helper()
	c, err := Parse("test.yaml", []byte(src), Lookups{})
	if err != nil {
		t.Fatalf("got errors:\n%v", err)
	}
	return c
}

// problemsOf parses a text that may be wrong.
func problemsOf(t *testing.T, src string, l Lookups) Errors {
	t.Helper()
	_, err := Parse("f", []byte(src), l)
	if err == nil {
		return nil
	}
	problems, ok := errors.AsType[Errors](err)
	if !ok {
		t.Fatalf("got a %T, want Errors: %v", err, err)
	}
	return problems
}
