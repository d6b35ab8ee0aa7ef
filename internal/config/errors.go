package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"llmgw/internal/spelling"
)

// Problem is one thing that is wrong with a file, and where.
type Problem struct {
	File   string
	Line   int // from 1
	Column int // in characters, from 1
	What   string
}

// String is the problem as file:line:column: what is wrong.
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.What)
}

// Errors is all that is wrong with a file, in the order of the file. It is the
// error of Load and Parse whenever the file itself could be read. No message
// holds a value that came from the environment or from another file.
type Errors []Problem

// Error is one line for each problem.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// inOrder sorts problems by place; those of one place stay as they were found.
// What is wrong with a plan is said once, however many have it.
func inOrder(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(problems)
}

// orList writes names for a sentence: "a, b or c".
func orList(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// didYouMean is a hint that names the candidate closest to word, or nothing if
// none is close.
func didYouMean(word string, candidates []string) string {
	if best, ok := spelling.Nearest(word, candidates, max(1, (len(word)+1)/3)); ok {
		return fmt.Sprintf(" (did you mean %q?)", best)
	}
	return ""
}
