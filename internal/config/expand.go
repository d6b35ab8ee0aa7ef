package config

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Lookups say what ${…} in a file stands for. The zero Lookups know nothing:
// every name without a default is undefined.
type Lookups struct {
	// Env returns an environment variable, and whether it is set.
	Env func(name string) (string, bool)
	// Missing stands for a variable that is not set and has no default; nil: that is
	// a problem.
	Missing func(name string) string
	// File returns the content of a file that ${file:PATH} names, PATH as written.
	File func(path string) ([]byte, error)
}

// maxSecretBytes bounds a file that ${file:PATH} names.
const maxSecretBytes = 64 << 10

// variable is the name of an environment variable.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expandAll puts values in for every ${…} under n, keys excepted, and returns
// what it could not find.
func (l Lookups) expandAll(n *node) []Problem {
	var problems []Problem
	if n.kind == scalar {
		text, errs := l.expand(n.raw)
		for _, err := range errs {
			problems = append(problems, n.problem("%v", err))
		}
		n.text, n.undefined = text, len(errs) > 0
	}
	for _, item := range n.items {
		problems = append(problems, l.expandAll(item)...)
	}
	for _, e := range n.entries {
		problems = append(problems, l.expandAll(e.value)...)
	}
	return problems
}

// expand replaces ${NAME}, ${NAME:-default}, ${file:PATH} and $$ in text. What
// it puts in is not looked at again. Each error names something that is not
// defined, never a value; without errors the result is whole.
func (l Lookups) expand(text string) (string, []error) {
	var b strings.Builder
	var errs []error
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "$")
		b.WriteString(before)
		switch {
		case !found:
			return b.String(), errs
		case strings.HasPrefix(after, "$"):
			b.WriteByte('$')
			rest = after[1:]
		case strings.HasPrefix(after, "{"):
			reference, tail, closed := strings.Cut(after[1:], "}")
			if !closed {
				return "", append(errs, errors.New(`"${" without "}"`))
			}
			value, err := l.lookup(reference)
			if err != nil {
				errs = append(errs, err)
			}
			b.WriteString(value)
			rest = tail
		default:
			errs = append(errs, errors.New(`a lone "$": write "$$" for a dollar sign, "${NAME}" for a variable`))
			rest = after
		}
	}
}

// lookup returns what ${reference} stands for.
func (l Lookups) lookup(reference string) (string, error) {
	if path, ok := strings.CutPrefix(reference, "file:"); ok {
		return l.file(path)
	}
	name, otherwise, hasDefault := strings.Cut(reference, ":-")
	if !variable.MatchString(name) {
		return "", fmt.Errorf("${%s} is not ${NAME}, ${NAME:-default} or ${file:PATH}", reference)
	}
	value, ok := "", false
	if l.Env != nil {
		value, ok = l.Env(name)
	}
	switch {
	case hasDefault && value == "": // as in a shell: unset or empty
		return otherwise, nil
	case !ok && l.Missing != nil:
		return l.Missing(name), nil
	case !ok:
		return "", fmt.Errorf("the environment variable %s is not set (${%s:-} would be empty then)", name, name)
	case !utf8.ValidString(value):
		return "", fmt.Errorf("the environment variable %s is not UTF-8", name)
	}
	return value, nil
}

// file returns the content of the file at path without its last line break.
func (l Lookups) file(path string) (string, error) {
	if path == "" {
		return "", errors.New("${file:} names no file")
	}
	if l.File == nil {
		return "", fmt.Errorf("${file:%s}: files cannot be read here", path)
	}
	content, err := l.File(path)
	if err != nil {
		// The path as written, and the cause without a second path.
		if cause, ok := errors.AsType[*fs.PathError](err); ok {
			err = cause.Err
		}
		return "", fmt.Errorf("${file:%s}: %w", path, err)
	}
	if len(content) > maxSecretBytes {
		return "", fmt.Errorf("${file:%s} has more than %d bytes", path, maxSecretBytes)
	}
	if !utf8.Valid(content) {
		return "", fmt.Errorf("${file:%s} is not UTF-8", path)
	}
	value := strings.TrimSuffix(string(content), "\n")
	return strings.TrimSuffix(value, "\r"), nil
}
