package jsonscan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns what a JSON string (quotes included, as Skip passed it) says.
// It aliases token if that needs no decoding; else it is appended to buf[:0],
// which may be nil.
func Text(token, buf []byte) []byte {
	if inner := inside(token); bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return inner
	}
	return AppendText(buf[:0], token)
}

// AppendText appends what a JSON string says to dst. Broken UTF-8 and lone
// surrogates become U+FFFD; a broken escape ends the text.
func AppendText(dst, token []byte) []byte {
	s := inside(token)
	for len(s) > 0 {
		n := bytes.IndexByte(s, '\\')
		if n < 0 {
			return appendValid(dst, s)
		}
		dst = appendValid(dst, s[:n])
		s = s[n:]
		r, size := unescape(s)
		if size == 0 {
			return dst
		}
		dst = utf8.AppendRune(dst, r)
		s = s[size:]
	}
	return dst
}

func inside(token []byte) []byte {
	if len(token) < 2 || token[0] != '"' {
		return nil
	}
	return token[1 : len(token)-1]
}

func appendValid(dst, s []byte) []byte {
	if utf8.Valid(s) {
		return append(dst, s...)
	}
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		dst = utf8.AppendRune(dst, r)
		s = s[size:]
	}
	return dst
}

// unescape reads the escape that s starts with, a surrogate pair as one. It
// returns size 0 if it is broken.
func unescape(s []byte) (r rune, size int) {
	if len(s) < 2 {
		return 0, 0
	}
	if s[1] != 'u' {
		return simple(s[1]), 2
	}
	r = hex4(s, 2)
	switch {
	case r < 0:
		return 0, 0
	case !utf16.IsSurrogate(r):
		return r, 6
	}
	if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(s, 8)); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

func simple(c byte) rune {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return rune(c)
}

// hex4 reads four hexadecimal digits at offset at; -1 if they are not there.
func hex4(s []byte, at int) rune {
	if at+4 > len(s) {
		return -1
	}
	var r rune
	for _, c := range s[at : at+4] {
		d := hexDigit(c)
		if d < 0 {
			return -1
		}
		r = r<<4 | d
	}
	return r
}

func hexDigit(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}
