// Package spelling finds what somebody meant who wrote a name wrongly. It knows
// no names itself.
package spelling

import "strings"

// Nearest returns the candidate that is closest to word, whatever the case of
// letters; of several the first in the alphabet. ok is false if more than most
// letters of each differ, or word has more than 64.
func Nearest(word string, candidates []string, most int) (best string, ok bool) {
	least := 1 + most
	for _, c := range candidates {
		if max(len(c)-len(word), len(word)-len(c)) > most {
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < least || d == least && c < best {
			best, least = c, d
		}
	}
	return best, best != ""
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
