package tenant

import (
	"errors"
	"net/textproto"
	"net/url"
	"strings"
)

// Why a request brings no secret.
var (
	ErrNoCredential       = errors.New("tenant: no credential")
	ErrSeveralCredentials = errors.New("tenant: several credentials that differ")
)

// Credential returns the secret that a request brings, wherever its client puts
// it: Authorization: Bearer (the scheme in any case), x-api-key, api-key,
// x-goog-api-key or ?key=. It is an error if there is none, and also if there
// are several that differ: which of them is meant would be a guess, and
// something between client and gateway may have guessed otherwise. An
// Authorization of another scheme, such as an AWS signature, holds no key and is
// passed over.
func Credential(h textproto.MIMEHeader, rawQuery string) (secret string, err error) {
	c := credential{}
	for _, v := range h["Authorization"] {
		c.add(bearer(v))
	}
	for _, name := range [...]string{"X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		for _, v := range h[name] {
			c.add(strings.Trim(v, " \t"))
		}
	}
	for rest := rawQuery; rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		name, value, _ := strings.Cut(pair, "=")
		if unescape(name) == "key" {
			c.add(unescape(value))
		}
	}
	switch {
	case c.differ:
		return "", ErrSeveralCredentials
	case c.secret == "":
		return "", ErrNoCredential
	}
	return c.secret, nil
}

// credential gathers secrets and whether they are all one.
type credential struct {
	secret string
	differ bool
}

func (c *credential) add(secret string) {
	switch {
	case secret == "":
	case c.secret == "":
		c.secret = secret
	default:
		c.differ = c.differ || c.secret != secret
	}
}

// bearer returns the token of a Bearer authorization, or nothing.
func bearer(authorization string) string {
	scheme, token, _ := strings.Cut(strings.Trim(authorization, " \t"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.Trim(token, " \t")
}

// unescape decodes a part of a query; what is badly escaped stays as it is.
func unescape(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	decoded, err := url.QueryUnescape(s)
	if err != nil {
		return s
	}
	return decoded
}
