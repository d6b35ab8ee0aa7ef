package bpe

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/pkoukk/tiktoken-go-loader/assets"
)

// origin is where an encoding comes from, and what is its own.
type origin struct {
	read     func(name string) ([][]byte, error) // its tokens, by their ranks
	split    splitter
	first    uint32 // the id of the token of rank 0
	composed bool   // it wants text in Unicode's normal form C
}

// origins are all encodings.
var origins = map[string]origin{
	"o200k_base":  {read: readTiktoken, split: splitO200K},
	"cl100k_base": {read: readTiktoken, split: splitCL100K},
	"p50k_base":   {read: readTiktoken, split: splitGPT2},
	"r50k_base":   {read: readTiktoken, split: splitGPT2},

	"qwen3":       {read: readVendored, split: splitQwen, composed: true}, // of Qwen 1.5 to 3 as well
	"deepseek_v3": {read: readVendored, split: splitDeepSeek, first: 3},   // of R1 as well
	"tekken":      {read: readVendored, split: splitTekken, first: 1000},  // Mistral's since Nemo
}

// readTiktoken reads a vocabulary of OpenAI's.
func readTiktoken(name string) ([][]byte, error) {
	text, err := assets.Assets.ReadFile(path.Base(name + ".tiktoken"))
	if err != nil {
		return nil, err
	}
	return parseRanks(text)
}

//go:embed vocabularies/*.tokens.gz
var vendored embed.FS

// readVendored reads a vocabulary of this package's own.
func readVendored(name string) ([][]byte, error) {
	packed, err := vendored.ReadFile("vocabularies/" + name + ".tokens.gz")
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	blob, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return parseTokens(blob)
}

// parseTokens reads tokens in the order of their ranks, each a byte with its
// length and its bytes.
func parseTokens(blob []byte) ([][]byte, error) {
	var tokens [][]byte
	for len(blob) > 0 {
		end := 1 + int(blob[0])
		if end == 1 || end > len(blob) {
			return nil, errors.New("a token is empty or cut off")
		}
		tokens = append(tokens, blob[1:end:end])
		blob = blob[end:]
	}
	return tokens, nil
}
