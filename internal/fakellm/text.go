package fakellm

import "strings"

// cycle is text without end: its words, over and over.
type cycle struct {
	text string // each word with a space before it
	ends []int  // where each word ends in text; ends[0] is 0
}

// The words that are said. Each plain word is one token, with its space, in
// the vocabularies that OpenAI uses, so that whoever counts the text finds the
// number of tokens that was produced.
var (
	plainWords = newCycle("the budget of every team is a promise and this answer will not spend more time than it has to on what you asked for because that would be no use")
	wideWords  = newCycle("le café naïve für über señor niño 東京 κόσμος мир 🙂 🚀 élan œuvre")
)

func newCycle(words string) cycle {
	c := cycle{ends: []int{0}}
	for _, word := range strings.Fields(words) {
		c.text += " " + word
		c.ends = append(c.ends, len(c.text))
	}
	return c
}

// end is where the n-th word of the endless text ends, its first space
// left out.
func (c cycle) end(n int64) int {
	if n == 0 {
		return 0
	}
	words := int64(len(c.ends) - 1)
	return int(n/words)*len(c.text) + c.ends[n%words] - 1
}

// first returns the first n bytes of the endless text.
func (c cycle) first(n int) string {
	return strings.Repeat(c.text, n/len(c.text)+1)[1 : n+1]
}
