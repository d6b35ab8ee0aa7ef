package openai

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"llmgw/internal/tokens"
)

// plainReading reads a stream the slow way: whole, event by event, decoded into
// maps. It is the oracle of the generated streams below.
func plainReading(events []string) (u tokens.Usage, input, output bool, text int) {
	number := func(v any) (tokens.Count, bool) {
		f, ok := v.(float64)
		return tokens.Count(f), ok
	}
	for _, event := range events {
		var chunk map[string]any
		if json.Unmarshal([]byte(event), &chunk) != nil {
			continue
		}
		choices, _ := chunk["choices"].([]any)
		for _, c := range choices {
			choice, _ := c.(map[string]any)
			delta, _ := choice["delta"].(map[string]any)
			content, _ := delta["content"].(string)
			text += len(content)
		}
		usage, _ := chunk["usage"].(map[string]any)
		in, hasIn := number(usage["prompt_tokens"])
		out, hasOut := number(usage["completion_tokens"])
		if in == 0 && out == 0 {
			continue
		}
		if hasIn {
			u.Input, input = in, true
		}
		if hasOut {
			u.Output, output = out, true
		}
	}
	return u, input, output, text
}

// generated makes a stream that a provider might send, with traps.
func generated(r *rand.Rand) []string {
	texts := []string{"", "a", "Hällo 世界 😀", `{\"usage\":{\"prompt_tokens\":9}}`, `data: [DONE]\n\n`, `\"}],\"usage\":{}`, `\\`, `\u0041\ud83d\ude00`}
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	var all []string
	for range 1 + r.IntN(12) {
		members := []string{`"id":"c"`, `"x":` + pick(`null`, `[1,{"usage":{"prompt_tokens":7}}]`, `{"choices":[],"usage":{"prompt_tokens":8}}`)}
		if r.IntN(4) > 0 {
			members = append(members, fmt.Sprintf(`"choices":[{"delta":{"content":"%s"},"index":0,"logprobs":null}]`, pick(texts...)))
		} else {
			members = append(members, `"choices":[]`)
		}
		if r.IntN(2) == 0 {
			members = append(members, `"usage":`+pick(
				`null`, `{}`, `{"prompt_tokens":0,"completion_tokens":0}`, fmt.Sprintf(`{"prompt_tokens":%d}`, 1+r.IntN(9)),
				fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":1}`, 1+r.IntN(9), r.IntN(9)), fmt.Sprintf(`{ "completion_tokens" : %d }`, 1+r.IntN(9))))
		}
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		all = append(all, "{"+strings.Join(members, pick(",", " , "))+"}")
	}
	return all
}

func TestGeneratedStreamsAreReadAsAPlainReaderReadsThem(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 7))
		events := generated(r)
		u, input, output, text := plainReading(events)
		ends := []string{"\n", "\r\n", "\r"}[r.IntN(3)]
		var answer strings.Builder
		for _, e := range events {
			if r.IntN(4) == 0 {
				answer.WriteString(": comment" + ends + strings.Repeat(ends, r.IntN(2)))
			}
			answer.WriteString("data:" + strings.Repeat(" ", r.IntN(2)) + e + ends + ends)
		}
		for _, hide := range []bool{false, true} {
			m := chatting(hide)
			var out []byte
			for rest := []byte(answer.String()); len(rest) > 0; {
				n := 1 + r.IntN(min(len(rest), 60))
				out = append(out, m.Feed(rest[:n])...)
				rest = rest[n:]
			}
			out = append(out, m.End()...)
			got := m.Report()
			if got.Usage != u || got.InputKnown != input || got.OutputKnown != output || got.Counted != tokens.Count(text) {
				t.Fatalf("seed %d: got %+v, want %+v (%v, %v) and %d bytes of text\n%s", seed, got, u, input, output, text, answer.String())
			}
			if hide {
				checkHidden(t, seed, events, out)
				continue
			}
			if string(out) != answer.String() {
				t.Fatalf("seed %d: the stream was changed", seed)
			}
		}
	}
}

// checkHidden compares what is left of a stream with what a plain reader would
// leave.
func checkHidden(t *testing.T, seed uint64, events []string, out []byte) {
	t.Helper()
	var want []string
	for _, event := range events {
		var chunk map[string]any
		if err := json.Unmarshal([]byte(event), &chunk); err != nil {
			t.Fatal(err)
		}
		choices, _ := chunk["choices"].([]any)
		if chunk["usage"] != nil && len(choices) == 0 {
			continue
		}
		delete(chunk, "usage")
		text, _ := json.Marshal(chunk)
		want = append(want, string(text))
	}
	var got []string
	for line := range strings.SplitSeq(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(out)), "\n") {
		data, ok := strings.CutPrefix(line, "data:")
		if !ok {
			continue
		}
		var chunk map[string]any
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("seed %d: %q is no JSON any more: %v", seed, data, err)
		}
		text, _ := json.Marshal(chunk)
		got = append(got, string(text))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("seed %d:\ngot  %q\nwant %q", seed, got, want)
	}
}
