package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// loader reads a configuration's files.
type loader struct {
	names Lookups // but for files
	files []File  // all that was read or looked at
	// changed is when the youngest of the configuration's own files came to be as
	// it is, in Unix milliseconds.
	changed int64
}

// load reads the file at path, with ${…} put in. The node is nil if the text is
// not readable. The error says why there is no text.
func (l *loader) load(path string) (*node, []Problem, error) {
	src, read, err := readFile(path, maxFileBytes)
	l.files = append(l.files, read)
	if err != nil {
		return nil, nil, err
	}
	l.changed = max(l.changed, read.Changed.UnixMilli())
	root, problems := readTree(path, src)
	if root == nil {
		return nil, problems, nil
	}
	return root, l.lookups(path).expandAll(root), nil
}

// lookups resolve the references of the file at path: a relative ${file:PATH} is
// beside it.
func (l *loader) lookups(path string) Lookups {
	names := l.names
	names.File = func(name string) ([]byte, error) {
		content, read, err := readFile(beside(path, name), maxSecretBytes)
		l.files = append(l.files, read)
		if err != nil && names.Missing != nil {
			return []byte(names.Missing(name)), nil
		}
		return content, err
	}
	return names
}

// beside is the path that name stands for in the file at path.
func beside(path, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(path), name)
}

// include adds to root what the files hold that its "include" names, and returns
// what is wrong with them. A pattern may match nothing; a name must exist.
func (l *loader) include(path string, root *node) []Problem {
	if root.kind != object {
		return nil
	}
	patterns := root.value("include")
	if patterns == nil || patterns.kind != list {
		return nil // the decoder refuses what is no list
	}
	var problems []Problem
	seen := map[string]bool{filepath.Clean(path): true}
	for _, n := range patterns.items {
		if n.kind != scalar || n.undefined {
			continue // refused by the decoder, or already
		}
		names, err := l.matches(beside(path, n.text), filepath.Dir(path))
		if err != nil {
			problems = append(problems, n.problem("%s: %v", show(n), err))
		}
		for _, name := range names {
			if seen[name] {
				continue
			}
			seen[name] = true
			part, more, err := l.load(name)
			if err != nil {
				more = append(more, n.problem("%s: %v", show(n), withoutPath(err)))
			}
			problems = append(problems, more...)
			if part != nil {
				problems = append(problems, root.adopt(part)...)
			}
		}
	}
	return problems
}

// matches lists the files of a pattern, in the order of their names. home is the
// directory of the file that includes them.
func (l *loader) matches(pattern, home string) ([]string, error) {
	if !isPattern(pattern) {
		return []string{filepath.Clean(pattern)}, nil
	}
	l.watch(filepath.Dir(pattern), home) // before: what comes later is a change
	names, err := filepath.Glob(pattern)
	slices.Sort(names)
	return names, err
}

// watch looks at the directories in which files that match may come and go: those
// that dir matches, and the ones above in which such a directory may. One that is
// gone leaves its trace only there, so a directory counts for the Version as a file
// does. home does not: other things change there, such as the books.
func (l *loader) watch(dir, home string) {
	dirs := []string{dir}
	if isPattern(dir) {
		l.watch(filepath.Dir(dir), home)
		dirs, _ = filepath.Glob(dir) // a bad pattern is refused as a whole
	}
	for _, d := range dirs {
		state := Stat(d)
		l.files = append(l.files, state)
		if filepath.Clean(d) != filepath.Clean(home) && !state.Changed.IsZero() {
			l.changed = max(l.changed, state.Changed.UnixMilli())
		}
	}
}

// isPattern reports whether path stands for any number of files.
func isPattern(path string) bool { return strings.ContainsAny(path, `*?[\`) }

// withoutPath is the cause of an error of a file, which names the path again.
func withoutPath(err error) error {
	if failed, ok := err.(*os.PathError); ok { //nolint:errorlint // as os.Open returns it
		return failed.Err
	}
	return err
}

// includable are the keys that an included file can have. All are lists.
var includable = []string{"models", "plans", "teams"}

// adopt adds the lists of part, an included file, to those of n.
func (n *node) adopt(part *node) []Problem {
	if part.kind != object {
		return []Problem{part.problem("this is %s where an object belongs", part.kind)}
	}
	var problems []Problem
	for _, e := range part.entries {
		switch mine := n.value(e.key.text); {
		case !slices.Contains(includable, e.key.text):
			problems = append(problems, e.key.problem("an included file has no %s: it can have %s", show(e.key), orList(includable)))
		case mine == nil:
			n.entries = append(n.entries, e)
		case mine.kind != list || e.value.kind != list:
			problems = append(problems, e.value.problem("this is %s, and there is %s at %s: only lists are put together", e.value.kind, mine.kind, mine.seenFrom(e.value)))
		default:
			mine.items = append(mine.items, e.value.items...)
		}
	}
	return problems
}

// problem is something wrong at n.
func (n *node) problem(format string, args ...any) Problem {
	return Problem{File: n.file, Line: n.line, Column: n.column, What: fmt.Sprintf(format, args...)}
}

// seenFrom names n's place for a message about m: by its line alone if both are
// in one file.
func (n *node) seenFrom(m *node) string {
	if n.file == m.file {
		return fmt.Sprintf("line %d", n.line)
	}
	return fmt.Sprintf("%s:%d", n.file, n.line)
}
