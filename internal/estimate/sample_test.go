package estimate

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/dialect"
)

// mixed is a text whose parts differ in tokens per byte.
func mixed(size int) string {
	r := rand.New(rand.NewPCG(1, 1))
	var out strings.Builder
	for out.Len() < size {
		switch r.IntN(3) {
		case 0:
			out.WriteString("An ordinary sentence about nothing in particular. ")
		case 1:
			out.WriteString("0x9f3a 77123 88.1; ")
		default:
			out.WriteString("預算是一個承諾。")
		}
	}
	return out.String()
}

func TestWhatIsBeyondTheExactBytesIsSampledWell(t *testing.T) {
	body := `{"messages":[{"role":"user","content":"` + mixed(1<<20) + `"}]}`
	exact := estimated(t, New(Config{}), call(t, dialect.Chat, body), Rules{Model: "gpt-4o"})
	got := estimated(t, New(Config{ExactBytes: 64 << 10}), call(t, dialect.Chat, body), Rules{Model: "gpt-4o"})
	if exact.Sampled || !got.Sampled {
		t.Errorf("sampled: %v and %v, want only the second", exact.Sampled, got.Sampled)
	}
	if got.Input < exact.Input*98/100 || got.Input > exact.Input*110/100 {
		t.Errorf("sampled %d, exact %d", got.Input, exact.Input)
	}
}

func TestASampleAddsTwiceItsStandardError(t *testing.T) {
	half := 1 << 19
	sparse, dense := strings.Repeat("hello ", half/6), strings.Repeat("x", half) // of one token in 6 bytes, and in 8
	body := `{"messages":[{"role":"user","content":"` + sparse + dense + `"}]}`
	got := estimated(t, New(Config{ExactBytes: 64 << 10}), call(t, dialect.Chat, body), Rules{Model: "gpt-4o"})
	mean, deviation := (1/6.+1/8.)/2, (1/6.-1/8.)/2
	want := (mean + 2*deviation/math.Sqrt(samples-1)) * float64(2*half)
	if math.Abs(float64(got.Input)-want) > want/100 {
		t.Errorf("%d tokens, want about %.0f", got.Input, want)
	}
}

func TestASampleIsNeverMoreThanATokenAByte(t *testing.T) {
	text := strings.Repeat("\\u0000", 1<<20)
	body := `{"messages":[{"role":"user","content":"` + text + `"}]}`
	got := estimated(t, New(Config{ExactBytes: 1 << 10}), call(t, dialect.Chat, body), Rules{Model: "gpt-4o"})
	if int(got.Input) > len(text) {
		t.Errorf("%d tokens for %d bytes", got.Input, len(text))
	}
}

func TestSamplesAreBoundedHoweverManyTextsThereAre(t *testing.T) {
	r := &reader{e: warm(t), model: resolve(nil, Rules{Model: "gpt-4o"}), encoding: mustEncoding(t, "o200k_base"), sampleLeft: mostSampled}
	token := []byte(`"` + mixed(10_000) + `"`)
	exact, got := 0, 0
	for range 400 {
		exact += r.encoding.Count(token[1 : len(token)-1])
		got += r.count(token)
	}
	if r.sampleBytes > mostSampled+samples*sampleSize {
		t.Errorf("%d bytes were counted, want at most about %d", r.sampleBytes, mostSampled)
	}
	if got < exact*104/100 || got > exact*106/100 { // half of it was not seen
		t.Errorf("%d tokens, want a twentieth more than %d", got, exact)
	}
}

func TestSmallTextIsExactBesideWhatIsSampled(t *testing.T) {
	e := New(Config{ExactBytes: 1000})
	body := `{"messages":[{"role":"user","content":"` + long[:900] + `"}]}`
	want := estimated(t, New(Config{}), call(t, dialect.Chat, body), Rules{Model: "gpt-4o"})
	if got := estimated(t, e, call(t, dialect.Chat, body), Rules{Model: "gpt-4o"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestALargeBodyWaitsForItsTurnAndIsThenSampled(t *testing.T) {
	body := `{"messages":[{"role":"user","content":"` + mixed(100<<10) + `"}]}`
	c := call(t, dialect.Chat, body)
	config := Config{LargeBytes: 64 << 10, LargeAtOnce: 1, LargeWait: time.Second}
	if err := New(config).Warm("o200k_base"); err != nil { // outside the bubble
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		e := New(config)
		e.large <- struct{}{} // another one is being counted
		start := time.Now()
		got := estimated(t, e, c, Rules{Model: "gpt-4o"})
		if waited := time.Since(start); !got.Sampled || waited != time.Second {
			t.Errorf("sampled %v after %v, want it after 1s", got.Sampled, waited)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			start := time.Now()
			got := estimated(t, e, c, Rules{Model: "gpt-4o"})
			if waited := time.Since(start); got.Sampled || waited != 300*time.Millisecond {
				t.Errorf("sampled %v after %v, want it counted after 300ms", got.Sampled, waited)
			}
		})
		wg.Go(func() {
			start := time.Now()
			estimated(t, e, call(t, dialect.Chat, `{"messages":[{"role":"user","content":"hello"}]}`), Rules{Model: "gpt-4o"})
			if waited := time.Since(start); waited != 0 {
				t.Errorf("a small body waited %v", waited)
			}
		})
		<-time.After(300 * time.Millisecond)
		<-e.large
		wg.Wait()
	})
}

func TestTextThatLooksLikeDataIsToldFromLanguage(t *testing.T) {
	for text, want := range map[string]bool{
		strings.Repeat("aGVsbG8gd29ybGQ5", 20): true,
		long:                                   false, strings.Repeat("a", 1000): false, "aGVsbG8gd29ybGQ5": false, strings.Repeat("1234567890", 50): false,
	} {
		if got := encoded([]byte(text)); got != want {
			t.Errorf("%.40q: %v, want %v", text, got, want)
		}
	}
}
