package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
func inOrder(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return problems
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
	best, least := "", 1+max(1, (len(word)+1)/3)
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < least || d == least && c < best {
			best, least = c, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// distance is the number of letters to insert, remove, replace or swap with
// their neighbour to make a into b (optimal string alignment). Words that no
// key could be close to count as far away.
func distance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	var rows [longest + 1][longest + 1]int
	for i := range len(a) + 1 {
		rows[i][0] = i
	}
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			rows[i][j] = min(replace, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
