package fakellm

import (
	"strings"
	"testing"

	"github.com/pkoukk/tiktoken-go"
	tiktokenloader "github.com/pkoukk/tiktoken-go-loader"
)

// TestAPlainWordIsOneToken lets others count what they were sent and compare
// it with what was produced.
func TestAPlainWordIsOneToken(t *testing.T) {
	tiktoken.SetBpeLoader(tiktokenloader.NewOfflineLoader())
	for _, encoding := range []string{"cl100k_base", "o200k_base"} {
		enc, err := tiktoken.GetEncoding(encoding)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int64{1, 5, 29, 30, 31, 1000} {
			text := plainWords.first(plainWords.end(n))
			if got := len(enc.Encode(text, nil, nil)); got != int(n) {
				t.Errorf("%s: %d words are %d tokens: %.100s", encoding, n, got, text)
			}
		}
	}
}

func TestTextIsCutBetweenWords(t *testing.T) {
	for _, c := range []cycle{plainWords, wideWords} {
		words := strings.Fields(strings.Repeat(c.text, 3))
		for n := range int64(len(words)) {
			if got, want := c.first(c.end(n)), strings.Join(words[:n], " "); got != want {
				t.Fatalf("%d words = %q, want %q", n, got, want)
			}
		}
	}
}
