package estimate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

// called is a conversation in which one message calls a tool so many times and
// gets that result each time.
func called(n int, ask, name, arguments, result string) string {
	var calls, results []string
	for i := range n {
		calls = append(calls, fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":%q,"arguments":%q}}`, i, name, arguments))
		text, _ := json.Marshal(result) // a string
		results = append(results, fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","content":%s}`, i, text))
	}
	return fmt.Sprintf(`{"messages":[{"role":"user","content":[{"type":"text","text":%q}]},{"role":"assistant","tool_calls":[%s]},%s]}`, ask, strings.Join(calls, ","), strings.Join(results, ","))
}

func input(t *testing.T, e *Estimator, model, body string) tokens.Count {
	t.Helper()
	return estimated(t, e, call(t, dialect.Chat, body), Rules{Model: model}).Input
}

func TestCallsMadeTogetherCostWhatWasBilled(t *testing.T) {
	e := New(Config{})
	for n, want := range map[int]tokens.Count{1: 39 /* 40 was billed */, 2: 89, 3: 114} {
		if got := input(t, e, "gpt-3.5-turbo", called(n, "How much is 2 plus 2?", "calculator", `{"a":2, "b":2}`, "4")); got != want {
			t.Errorf("%d calls: got %d tokens, want %d", n, got, want)
		}
	}
	korean, english := strings.Repeat("테스트 ", 1000), strings.Repeat("test ", 1000)
	of := func(n int, result string) tokens.Count {
		return input(t, e, "gpt-4.1", called(n, "Call the tool.", "dummy", `{"n": 1}`, result))
	}
	prompt := 1121 - of(1, korean) // the published prompt was another
	for _, s := range []struct {
		result string
		billed tokens.Count
	}{{english, 3191}, {korean, 39_235}} {
		got := of(3, s.result) + prompt
		if off := got - s.billed; off*off > s.billed { // a few for names and arguments
			t.Errorf("three results of %.12q…: got %d tokens, %d were billed", s.result, got, s.billed)
		}
	}
}

func TestAResultThatNamesItsToolCostsWhatWasBilled(t *testing.T) {
	body := `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"get_current_weather","arguments":"{\n  \"location\": \"Boston, MA\"\n}"}}]},` +
		`{"role":"tool","tool_call_id":"a","name":"get_current_weather","content":"29 degree celcius"}]}` //nolint:misspell // as it was sent and billed
	if got := input(t, New(Config{}), "gpt-4", body); got != 35 {
		t.Errorf("got %d tokens, want 35", got)
	}
}

func TestOnlyResultsOfCallsMadeTogetherAreEscaped(t *testing.T) {
	one := `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	two := `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	wordy := strings.Replace(two, `"{}"`, `"{\"why\":\"`+long+`\"}"`, 1)
	result := `{"role":"tool","tool_call_id":"a","content":"결과 ` + strings.Repeat("결과 ", 300) + `"}`
	short := `{"role":"tool","tool_call_id":"a","content":"결과"}`
	user := `{"role":"user","content":"고맙습니다"}`
	of := func(model string, messages ...string) tokens.Count {
		// Counted twice: from the bytes, and from what is remembered of them.
		e, body := New(Config{}), `{"messages":[`+strings.Join(messages, ",")+`]}`
		first := input(t, e, model, body)
		if again := input(t, e, model, body); again != first {
			t.Errorf("%s: %d tokens, and %d another time", model, first, again)
		}
		return first
	}
	plain := of("gpt-4o", one, result) - of("gpt-4o", one)
	escaped := of("gpt-4o", two, result) - of("gpt-4o", two)
	if escaped < 4*plain {
		t.Errorf("a result costs %d tokens alone and %d beside another, want several times as many", plain, escaped)
	}
	for _, s := range []struct {
		what  string
		model string
		start []string
		next  string
		want  tokens.Count
	}{
		{"the second result too", "gpt-4o", []string{two, result}, result, escaped},
		{"and one after a short one", "gpt-4o", []string{two, short}, result, escaped},
		{"and after calls that are remembered by themselves", "gpt-4o", []string{wordy}, result, escaped},
		{"not the user's next message", "gpt-4o", []string{two, result}, user, of("gpt-4o", one, user) - of("gpt-4o", one)},
		{"nor a result after that", "gpt-4o", []string{two, result, user}, result, plain},
		{"nor that of a later single call", "gpt-4o", []string{two, result, one}, result, plain},
		{"nor of open models", "gpt-oss-120b", []string{two}, result, of("gpt-oss-120b", one, result) - of("gpt-oss-120b", one)},
		{"nor of other providers", "llama-3.3", []string{two}, result, of("llama-3.3", one, result) - of("llama-3.3", one)},
	} {
		got := of(s.model, append(s.start, s.next)...) - of(s.model, s.start...)
		if off := got - s.want; off < -1 || off > 1 { // a factor rounds
			t.Errorf("%s: %d tokens, want %d", s.what, got, s.want)
		}
	}
}

func TestAHistoryRemembersThatItsLastCallsWereMadeTogether(t *testing.T) {
	padding := fmt.Sprintf(`{"role":"user","content":%q}`, strings.Repeat("some words that fill the history ", 2000))
	two := `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	result := `{"role":"tool","tool_call_id":"a","content":"결과 ` + strings.Repeat("결과 ", 300) + `"}`
	e := New(Config{})
	input(t, e, "gpt-4o", `{"messages":[`+padding+`,`+two+`]}`) // remembered as a whole
	got := input(t, e, "gpt-4o", `{"messages":[`+padding+`,`+two+`,`+result+`,`+result+`]}`)
	if want := input(t, New(Config{}), "gpt-4o", `{"messages":[`+padding+`,`+two+`,`+result+`,`+result+`]}`); got != want {
		t.Errorf("got %d tokens with what was remembered, want %d", got, want)
	}
}

func TestTextIsEscapedAsASCIIJSON(t *testing.T) {
	for _, text := range []string{"", "plain", "tab\tline\nreturn\r", `quote " and \`, "\x00\x1f\x7f", "é", "테스트", "😀", "a\u2028b"} {
		got := appendASCII(nil, []byte(text))
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != text {
			t.Errorf("%q: %s reads back as %q, %v", text, got, back, err)
		}
		for _, c := range got {
			if c >= 0x80 || c < ' ' {
				t.Errorf("%q: %s is not ASCII", text, got)
			}
		}
	}
	if got := string(appendASCII(nil, []byte("테😀\xff"))); got != `"\ud14c\ud83d\ude00\ufffd"` {
		t.Errorf("got %s", got)
	}
}
