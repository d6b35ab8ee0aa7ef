package estimate

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"llmgw/internal/dialect"
	"llmgw/internal/jsonscan"
	"llmgw/internal/tokens"
)

// Speech is 20 tokens a second (1 for each 50 ms), spoken at no less than ten
// bytes a second in any script, and at least a second long.
const (
	speechPerByte = 2
	leastSpeech   = 20
	slowestSpeech = 0.25 // of the speed that a request may wish for
)

// speechOutput is what a model of OpenAI's bills for speaking a call's text:
// tokens by its length, or a token for each character where characters are
// billed; false for all others.
func speechOutput(name string, c *dialect.Call) (tokens.Count, bool) {
	short := shortName(name)
	text := jsonscan.Text(member(c, "input"), nil)
	switch {
	case strings.HasPrefix(short, "tts-1"):
		return tokens.Count(utf8.RuneCount(text)), true
	case strings.HasPrefix(short, "gpt-") && strings.Contains(short, "-tts"):
		long := float64(speechPerByte*len(text)+leastSpeech) / speed(member(c, "speed"))
		return tokens.Count(long), true
	}
	return 0, false
}

// speed is the wish for slow speech, of at most 1.
func speed(number []byte) float64 {
	wish, err := strconv.ParseFloat(string(number), 64)
	if err != nil || !(wish > 0) {
		return 1
	}
	return min(1, max(slowestSpeech, wish))
}

// member is the value of a member of a call's body, or nil.
func member(c *dialect.Call, key string) []byte {
	for _, m := range c.Members {
		if m.Key == key && m.Value.Start >= 0 && m.Value.End <= len(c.Body) && !m.Value.Empty() {
			return c.Body[m.Value.Start:m.Value.End]
		}
	}
	return nil
}
