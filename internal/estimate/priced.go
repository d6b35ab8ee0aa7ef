package estimate

import (
	"bytes"
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/registry"
	"llmgw/internal/jsonscan"
	"llmgw/internal/tokens"
)

// unboundedCalls is how often a tool of the provider's is taken to run where the
// request does not bound it.
const unboundedCalls = 10

// allows returns what a call may be billed for beyond plain tokens.
func allows(c *dialect.Call, rules *Rules, t *tally) tokens.Allows {
	a := tokens.Allows{Audio: tokens.Count(t.sound), Images: tokens.Count(t.images), Tiers: AskedTiers(c)}
	a.Allow(tokens.Reasoning)
	if registry.Flavor(rules.Dialect, rules.Flavor).Citations {
		a.Allow(tokens.Citations)
	}
	allowCaches(&a, c, rules)
	allowModalities(&a, c)
	switch c.Endpoint.Operation {
	case dialect.Images:
		a.Calls[tokens.Picture] = max(1, c.Choices)
	case dialect.Rerank:
		a.Calls[tokens.SearchUnit] = searchUnits(c, t)
	}
	allowTools(&a, c)
	return a
}

// allowCaches allows cache writes: with some APIs a request must ask for them,
// with others they happen by themselves.
func allowCaches(a *tokens.Allows, c *dialect.Call, rules *Rules) {
	if !registry.Profile(rules.Dialect).AsksForCache {
		a.Allow(tokens.CacheWrite)
		return
	}
	if !bytes.Contains(c.Body, []byte("cache_control")) && !bytes.Contains(c.Body, []byte("cachePoint")) {
		return
	}
	a.Allow(tokens.CacheWrite)
	if bytes.Contains(c.Body, []byte(`"1h"`)) {
		a.Allow(tokens.CacheWrite1h)
	}
}

// allowModalities allows sound and pictures as output. The models of some APIs
// choose them unasked.
func allowModalities(a *tokens.Allows, c *dialect.Call) {
	wish := member(c, "modalities")
	free := registry.Profile(c.Dialect).AnyModality
	if free {
		for _, config := range [...]string{"generationConfig", "generation_config"} {
			for _, name := range [...]string{"responseModalities", "response_modalities"} {
				if v := find(member(c, config), name); v != nil {
					wish = v
				}
			}
		}
	}
	unasked := free && wish == nil
	said := string(bytes.ToLower(wish))
	if unasked || strings.Contains(said, `"audio"`) || c.Endpoint.Operation == dialect.Speech {
		a.Allow(tokens.AudioOutput)
	}
	if unasked || strings.Contains(said, `"image"`) || c.Endpoint.Operation == dialect.Images {
		a.Allow(tokens.ImageOutput)
	}
}

// serverTools are the tools that a provider runs and bills by the piece, by what
// their type, or the name of their only member, begins with.
var serverTools = [...]struct {
	name  string
	piece tokens.Piece
}{
	{"web_search", tokens.WebSearch}, {"google", tokens.WebSearch}, {"openrouter:web", tokens.WebSearch}, {"x_search", tokens.XSearch},
	{"file_search", tokens.FileSearch}, {"code_interpreter", tokens.CodeInterpreter},
}

// allowTools allows the tools that a call offers, as often as it lets them run.
func allowTools(a *tokens.Allows, c *dialect.Call) {
	if v := member(c, "web_search_options"); jsonscan.KindAt(v, 0) == jsonscan.Object {
		a.Calls[tokens.WebSearch] = 1
	}
	if v := member(c, "search_parameters"); jsonscan.KindAt(v, 0) == jsonscan.Object { // xAI's
		a.Calls[tokens.Source] = bound(find(v, "max_search_results"), 2*unboundedCalls)
	}
	tools := member(c, "tools")
	if jsonscan.KindAt(tools, 0) != jsonscan.Array {
		return
	}
	runs := bound(member(c, "max_tool_calls"), unboundedCalls)
	for e := jsonscan.ElementsAt(tools, 0); e.Next(); {
		kind := string(unescaped(find(e.Bytes(), "type")))
		if kind == "" && jsonscan.KindAt(e.Bytes(), 0) == jsonscan.Object {
			if m := jsonscan.MembersAt(e.Bytes(), 0); m.Next() {
				kind = string(m.Key())
			}
		}
		for _, tool := range serverTools {
			if strings.HasPrefix(kind, tool.name) {
				a.Calls[tool.piece] = max(a.Calls[tool.piece], bound(find(e.Bytes(), "max_uses"), runs))
			}
		}
	}
}

// bound reads a number of runs; what is none is otherwise.
func bound(number []byte, otherwise tokens.Count) tokens.Count {
	n, flaw := jsonscan.Integer(number)
	if number == nil || flaw != jsonscan.NoFlaw || n < 0 {
		return otherwise
	}
	return tokens.Count(n)
}

// What one of Cohere's units of search covers, and into what a longer document
// is cut.
const (
	unitDocuments  = 100
	documentTokens = 500
)

// searchUnits is how many units a rerank is billed: one for each hundred
// documents, of which long ones count as several.
func searchUnits(c *dialect.Call, t *tally) tokens.Count {
	documents := 0
	if list := member(c, "documents"); jsonscan.KindAt(list, 0) == jsonscan.Array {
		for e := jsonscan.ElementsAt(list, 0); e.Next(); {
			documents++
		}
	}
	return tokens.Count(1 + (documents+t.text/documentTokens)/unitDocuments)
}

// AskedTiers returns the tiers that a call asks to be served in.
func AskedTiers(c *dialect.Call) tokens.Tiers {
	var asked tokens.Tiers
	for _, m := range c.Members {
		if m.Value.Start < 0 || m.Value.Empty() || m.Value.End > len(c.Body) {
			continue
		}
		value := c.Body[m.Value.Start:m.Value.End]
		switch m.Key {
		case "service_tier", "serviceTier", "speed", "inference_geo":
			if inner := find(value, "type"); inner != nil { // Bedrock's
				value = inner
			}
		case "performanceConfig":
			value = find(value, "latency")
		default:
			continue
		}
		if jsonscan.KindAt(value, 0) == jsonscan.String {
			asked |= tokens.TierOf(string(unescaped(value)))
		}
	}
	for _, name := range [...]string{"X-Amzn-Bedrock-Service-Tier", "X-Amzn-Bedrock-Performanceconfig-Latency", "X-Vertex-Ai-Llm-Shared-Request-Type"} {
		asked |= tokens.TierOf(c.Header.Get(name))
	}
	return asked
}
