package estimate

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"llmgw/internal/dialect"
)

// turns is a conversation that grows: the bodies of its requests.
func turns(n int) []string {
	var bodies []string
	messages := `{"role":"system","content":"` + long + `"}`
	for i := range n {
		text := fmt.Sprintf("%d %s", i, strings.Repeat(long, 1+i%5))
		messages += fmt.Sprintf(`,{"role":"user","content":%q},{"role":"assistant","content":"Noted: %d \"quoted\" \\ \u00e9."}`, text, i)
		bodies = append(bodies, `{"messages":[`+messages+`]}`)
	}
	return bodies
}

func TestWhatIsRememberedChangesNoCount(t *testing.T) {
	tools := `,"tools":[{"type":"function","function":{"name":"x","description":"` + long + `"}}]`
	warm := New(Config{})
	n := 40
	if testing.Short() {
		n = 10
	}
	for i, body := range turns(n) {
		for _, model := range []string{"gpt-4o", "gpt-4", "claude-opus-4-7", "gemini-3-pro"} {
			for _, extra := range []string{"", tools} {
				c := call(t, dialect.Chat, strings.TrimSuffix(body, "}")+extra+"}")
				rules := Rules{Model: model}
				want := estimated(t, New(Config{CacheEntries: 1}), c, rules)
				for range 2 {
					if got := estimated(t, warm, c, rules); got != want {
						t.Fatalf("turn %d of %s: %+v, want %+v", i, model, got, want)
					}
				}
			}
		}
	}
}

func TestWhatIsRememberedOfAModelIsNotTakenForItCountedOtherwise(t *testing.T) {
	c := call(t, dialect.Chat, `{"messages":[{"role":"user","content":"`+strings.Repeat("数字预算", 200)+`"}]}`)
	exact, guessed := Rules{Model: "house", Encoding: "o200k_base"}, Rules{Model: "house"}
	e := New(Config{})
	for range 2 {
		for _, rules := range []Rules{exact, guessed} {
			if got, want := estimated(t, e, c, rules), estimated(t, New(Config{}), c, rules); got != want {
				t.Errorf("%+v: %+v, want %+v", rules, got, want)
			}
		}
	}
}

func TestAChangeInTheMiddleOfAConversationIsSeen(t *testing.T) {
	all := turns(30)
	body := all[len(all)-1]
	e := New(Config{})
	before := estimated(t, e, call(t, dialect.Chat, body))
	changed := strings.Replace(body, "12 A budget", "12 A little budget", 1)
	want := estimated(t, New(Config{}), call(t, dialect.Chat, changed))
	if got := estimated(t, e, call(t, dialect.Chat, changed)); got != want || got.Input != before.Input+1 {
		t.Errorf("%d tokens, want %d, one more than before", got.Input, want.Input)
	}
	if got := estimated(t, e, call(t, dialect.Chat, all[10])); got != estimated(t, New(Config{}), call(t, dialect.Chat, all[10])) {
		t.Errorf("an earlier turn has %d tokens after a later one", got.Input)
	}
}

func TestACacheIsBoundedAndForgetsWhatWasUsedLeast(t *testing.T) {
	c := newCache(shards * ways) // one set to a shard
	key := func(i uint64) cacheKey { return cacheKey{i << 8, 1} }
	for i := range uint64(ways) {
		c.put(key(i), tally{text: int(i)})
	}
	c.get(key(0))
	c.put(key(ways), tally{text: ways})
	if _, ok := c.get(key(1)); ok {
		t.Error("what was used least is still there")
	}
	for _, i := range []uint64{0, 2, 3, ways} {
		if got, ok := c.get(key(i)); !ok || got.text != int(i) {
			t.Errorf("%d is forgotten", i)
		}
	}
	c.put(key(0), tally{text: 9})
	if got, _ := c.get(key(0)); got.text != 9 {
		t.Error("a second value for a key is not taken")
	}
}

func TestHistoriesKeepTheEndsThatWereUsedLast(t *testing.T) {
	var h histories
	for end := 1; end <= branches; end++ {
		h.use(7, end*100)
	}
	h.use(7, 100)
	h.use(7, 900)
	if got, want := h.ends(7), [branches]int{900, 400, 300, 100}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := h.ends(8); got != [branches]int{} {
		t.Errorf("another conversation ends at %v", got)
	}
	h.use(7+1024, 5)
	if got := h.ends(7); got != [branches]int{} {
		t.Errorf("a slot serves two conversations: %v", got)
	}
}

func TestEstimatesAreSafeFromManyGoroutines(t *testing.T) {
	e := New(Config{CacheEntries: 64})
	bodies := turns(12)
	want := estimated(t, New(Config{}), call(t, dialect.Chat, bodies[11]))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range bodies {
				estimated(t, e, call(t, dialect.Chat, bodies[(i+g)%len(bodies)]))
			}
			if got := estimated(t, e, call(t, dialect.Chat, bodies[11])); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			e.Observe(Observation{Rules: Rules{Model: "m"}, Estimate: want, InputKnown: true, OutputKnown: true, Complete: true})
			if err := e.Merge(e.Snapshot()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestEstimatingWhatIsKnownAllocatesAlmostNothing(t *testing.T) {
	e := New(Config{})
	c := call(t, dialect.Chat, conversation(100_000))
	estimated(t, e, c)
	rules := Rules{Model: "gpt-4o"}
	if n := testing.AllocsPerRun(20, func() {
		if _, err := e.Estimate(c, rules); err != nil {
			t.Error(err)
		}
	}); n > 2 && !raceEnabled {
		t.Errorf("%v allocations, want at most 2", n)
	}
}

// small is a conversation of messages that are too small to be remembered one by
// one.
func small(messages int) string {
	var all []string
	for i := range messages {
		all = append(all, fmt.Sprintf(`{"role":"user","content":"%d %s"}`, i, long[:cachedBytes-100]))
	}
	return `{"messages":[` + strings.Join(all, ",") + `]}`
}

func TestASecondTurnCountsOnlyWhatIsNew(t *testing.T) {
	const first, more = 200, 120 // of 0.4 KB
	// A turn may count little more than the first one has: what is beyond would
	// be samples.
	e := New(Config{ExactBytes: first * cachedBytes, LargeBytes: 1 << 20})
	if estimated(t, e, call(t, dialect.Chat, small(first))).Sampled {
		t.Fatal("the first turn is sampled")
	}
	for turn := 1; turn <= 4; turn++ {
		body := small(first + turn*more)
		got := estimated(t, e, call(t, dialect.Chat, body))
		if want := estimated(t, New(Config{}), call(t, dialect.Chat, body)); got != want {
			t.Fatalf("turn %d: %+v, want %+v without a sample", turn, got, want)
		}
	}
	if !estimated(t, New(e.config), call(t, dialect.Chat, small(first+4*more))).Sampled {
		t.Error("the last turn is counted whole where nothing is remembered: the test shows nothing")
	}
}

func TestTargetsThatCountAlikeAreReadOnceForAll(t *testing.T) {
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, strings.Repeat(long, 5))
	rules := []Rules{{ProviderModel: "gpt-4o"}, {ProviderModel: "gpt-4.1"}, {Dialect: "azure", ProviderModel: "my-deployment"}, {ProviderModel: "gpt-4"}}
	entries := func(e *Estimator) (n int) {
		for i := range e.cache.shards {
			for _, set := range e.cache.shards[i].sets {
				for _, k := range set.keys {
					if k != (cacheKey{}) {
						n++
					}
				}
			}
		}
		return n
	}
	e := New(Config{})
	if _, err := e.EstimateEach(call(t, dialect.Chat, body), rules); err != nil {
		t.Fatal(err)
	}
	if got := entries(e); got != 2 {
		t.Errorf("the message was read %d times, want once for each of the two encodings", got)
	}
}
