package estimate

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"

	"llmgw/internal/dialect"
)

// conversation is a chat of some size in messages of about 4 KB.
func conversation(size int) string {
	var messages []map[string]string
	for i, left := 0, size; left > 0; i++ {
		text := fmt.Sprintf("Turn %d.\n", i) + strings.Repeat("The quick \"brown\" fox of number 42 jumps over a lazy dog, café and all.\n", 55)
		text = text[:min(len(text), max(left, 40))]
		messages = append(messages, map[string]string{"role": []string{"user", "assistant"}[i%2], "content": text})
		left -= len(text)
	}
	body, err := json.Marshal(map[string]any{"model": "gpt-4o", "messages": messages})
	if err != nil {
		panic(err)
	}
	return string(body)
}

func BenchmarkFirstTurn(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 400_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c := call(b, dialect.Chat, conversation(size))
			e := warm(b)
			b.SetBytes(int64(len(c.Body)))
			b.ReportAllocs()
			for b.Loop() {
				e.cache.seed = maphash.MakeSeed() // forgets everything
				if _, err := e.Estimate(c, Rules{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSecondTurn sends a conversation again: as it was, and with a new
// message at its end.
func BenchmarkSecondTurn(b *testing.B) {
	e := warm(b)
	b.Run("same", func(b *testing.B) {
		c := call(b, dialect.Chat, conversation(400_000))
		b.SetBytes(int64(len(c.Body)))
		b.ReportAllocs()
		for b.Loop() {
			estimated(b, e, c)
		}
	})
	b.Run("longer", func(b *testing.B) {
		body := conversation(400_000)
		c := call(b, dialect.Chat, strings.TrimSuffix(body, `],"model":"gpt-4o"}`)+`,{"role":"user","content":"0000000 what?"}],"model":"gpt-4o"}`)
		at := strings.LastIndex(string(c.Body), "0000000")
		estimated(b, e, call(b, dialect.Chat, body))
		b.SetBytes(int64(len(c.Body)))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			copy(c.Body[at:], fmt.Sprintf("%07d", i))
			estimated(b, e, c)
		}
	})
}

func warm(t testing.TB) *Estimator {
	t.Helper()
	e := New(Config{})
	if err := e.Warm(); err != nil {
		t.Fatal(err)
	}
	return e
}

func estimated(t testing.TB, e *Estimator, c *dialect.Call, rules ...Rules) Estimate {
	t.Helper()
	got, err := e.Estimate(c, append(rules, Rules{})[0])
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// BenchmarkSmallBesideLarge reports the 99th percentile of small estimates
// alone and beside hostile prompts of 5 MB.
func BenchmarkSmallBesideLarge(b *testing.B) {
	var hostile strings.Builder
	for x := uint64(1); hostile.Len() < 5<<20; {
		x = x*6364136223846793005 + 1442695040888963407
		hostile.WriteString("----\\n////"[:3+x>>61])
	}
	large := call(b, dialect.Chat, `{"messages":[{"role":"user","content":"`+hostile.String()+`x"}]}`)
	small := call(b, dialect.Chat, conversation(1<<10))
	e := warm(b)
	run := func() time.Duration {
		times := make([]time.Duration, 100)
		for i := range times {
			start := time.Now()
			if _, err := e.Estimate(small, Rules{}); err != nil {
				b.Fatal(err)
			}
			times[i] = time.Since(start)
			time.Sleep(time.Millisecond) // requests do not come all at once
		}
		slices.Sort(times)
		return times[98]
	}
	for b.Loop() {
		b.ReportMetric(float64(run().Microseconds()), "alone-p99-µs")
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.Estimate(large, Rules{})
		}()
		b.ReportMetric(float64(run().Microseconds()), "beside-p99-µs")
		<-done
	}
}
