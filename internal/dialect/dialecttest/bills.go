package dialecttest

import (
	"encoding/base64"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

// Bill is an answer with what its provider bills for it by its price list.
type Bill struct {
	What      string
	Operation dialect.Operation // empty: Chat
	Pattern   string            // of the endpoint; most dialects need none
	Flavor    string
	Member    string // of the request, if one matters
	Header    dialect.Header
	Answer    string // a document; a stream of events if it begins with one
	// Prices are pairs such as "input 3 output 15"; a piece is @web_search, a tier
	// ×fast, and a class above a bound 200000>input.
	Prices string
	Micro  tokens.Count // millionths of a dollar
	// Unpriced is what the bill has and the prices have not.
	Unpriced string
}

// Bills tests that each bill is charged to the micro-dollar.
func Bills(t *testing.T, d dialect.Dialect, bills []Bill) {
	for _, b := range bills {
		t.Run(b.What, func(t *testing.T) {
			prices := pricesOf(t, b.Prices)
			used := b.report(d)
			if got := prices.Cost(used); got != b.Micro {
				t.Errorf("got $%d e-6, want %d: %+v at %v", got, b.Micro, used, prices)
			}
			if got := strings.Join(prices.Unpriced(used), ", "); got != b.Unpriced {
				t.Errorf("without a price: got %q, want %q", got, b.Unpriced)
			}
		})
	}
}

func (b Bill) report(d dialect.Dialect) tokens.Usage {
	operation := b.Operation
	if operation == "" {
		operation = dialect.Chat
	}
	stream := strings.HasPrefix(b.Answer, "event:") || strings.HasPrefix(b.Answer, "data:")
	c := &dialect.Call{
		Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: operation, Pattern: b.Pattern}}, Dialect: d.Name(), Stream: stream, Choices: 1,
		NoOutput: operation == dialect.Embeddings || operation == dialect.Rerank,
	}
	if b.Member != "" {
		c.Members = []dialect.Member{{Key: b.Member}}
	}
	a := dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {"application/json"}}}
	if stream {
		a.Header.Set("Content-Type", "text/event-stream")
	}
	for name, values := range b.Header {
		a.Header[name] = values
	}
	m := d.Meter(c, a, dialect.MeterOptions{Count: Bytes, Flavor: b.Flavor})
	body := []byte(b.Answer)
	if a.Header.Get("Content-Type") == "application/vnd.amazon.eventstream" {
		body, _ = base64.StdEncoding.DecodeString(b.Answer)
	}
	_, report := feed(m, [][]byte{body})
	return report.Usage
}

// pricesOf reads a price list of pairs.
func pricesOf(t *testing.T, text string) *tokens.Prices {
	p := new(tokens.Prices)
	words := strings.Fields(text)
	for i := 0; i+1 < len(words); i += 2 {
		rate, err := tokens.ParseRate(words[i+1])
		if err != nil || !setPrice(p, words[i], rate) {
			t.Fatalf("%s %s: no price", words[i], words[i+1])
		}
	}
	p.Fill()
	return p
}

func setPrice(p *tokens.Prices, name string, rate tokens.Rate) bool {
	if piece, ok := strings.CutPrefix(name, "@"); ok {
		for k := range tokens.Pieces() {
			if k.String() == piece {
				p.SetPiece(k, rate)
				return true
			}
		}
		return false
	}
	if tier, ok := strings.CutPrefix(name, "×"); ok {
		for k := range tokens.AllTiers() {
			if k.String() == tier {
				p.SetTier(k, rate)
				return true
			}
		}
		return false
	}
	over, class, bounded := strings.Cut(name, ">")
	if !bounded {
		class = name
	}
	for c := range tokens.Classes() {
		if c.String() == class && bounded {
			n, err := tokens.ParseRate(over)
			p.SetAbove(tokens.Count(n/tokens.One), c, rate)
			return err == nil
		}
		if c.String() == class {
			p.Set(c, rate)
			return true
		}
	}
	return false
}
