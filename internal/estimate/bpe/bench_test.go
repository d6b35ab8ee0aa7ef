package bpe

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	tiktoken "github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

// corpora are texts of 400 KB: our own prose in English and Chinese with an
// unrepeated order of sentences, Go's own sources, and generated JSON.
func corpora(t testing.TB) map[string][]byte {
	t.Helper()
	const size = 400_000
	return map[string][]byte{
		"English": []byte(shuffled(english, " ", size)),
		"Chinese": []byte(shuffled(chinese, "", size)),
		"Go":      goSource(t, size),
		"JSON":    generatedJSON(size),
	}
}

var english = strings.Split(`The budget of a team is refilled every second, and nobody has to ask for it.|When a request arrives, its cost is estimated before anything else happens.|"Is that enough?" she asked, looking at the dashboard that hung above the printers.|It wasn't, of course; the migration in March had doubled the traffic overnight.|Engineers who have worked with queues know that waiting is seldom free.|The old warehouse stood at the end of the harbour, between two cranes nobody used.|Most prompts contain between 200 and 3,000 words, although some are much longer.|Their conclusion (published in 2019) surprised the committee: smaller batches were faster.|Please summarise the following document in three bullet points and keep the tone friendly.|Rain fell for eleven days, and the river carried whole trees past the bridge.|We measured the latency at the 50th, 95th and 99th percentile under steady load.|A careful reader will notice that the second argument contradicts the first.|Under the microscope the fibres looked like tangled copper wire, bright and irregular.|He'd promised to return before Christmas, yet the letters grew shorter every month.|Photosynthesis converts carbon dioxide and water into glucose, releasing oxygen.|The museum's collection includes medieval manuscripts, astrolabes and early telescopes.`, "|")

var chinese = strings.Split(`每个团队都有自己的预算，系统每秒钟自动补充一次。|当请求到达时，我们首先估算它的成本，然后再决定是否放行。|昨天下午，工程师们在会议室里讨论了新的限流算法。|她站在窗前，看着远处的山慢慢消失在雾里。|这篇文章介绍了如何在分布式环境中保持计数的一致性。|如果没有足够的余额，客户端会收到一个明确的错误信息。|古老的城墙外面，是一条通往海边的石板路。|根据最新的调查，百分之六十的用户更喜欢简洁的界面。|请把下面的文档总结成三个要点，并保持语气友好。|光合作用把二氧化碳和水转化为葡萄糖，同时释放氧气。|博物馆收藏了许多中世纪的手稿和早期的望远镜。|他答应过年之前回来，可是信却一个月比一个月短。`, "|")

// shuffled strings sentences together in an order that does not repeat.
func shuffled(sentences []string, between string, size int) string {
	var out strings.Builder
	for x := uint64(7); out.Len() < size; {
		x = x*6364136223846793005 + 1442695040888963407
		out.WriteString(sentences[(x>>33)%uint64(len(sentences))])
		out.WriteString(between)
		if x>>60 == 0 {
			out.WriteString("\n\n")
		}
	}
	return strings.ToValidUTF8(out.String()[:size], "")
}

func goSource(t testing.TB, size int) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(runtime.GOROOT(), "src/net/http/*.go")) //nolint:staticcheck // it is skipped where there is none
	if err != nil || len(files) == 0 {
		t.Skip("the Go distribution has no sources here")
	}
	var all []byte
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return all[:min(size, len(all))]
}

func generatedJSON(size int) []byte {
	var out []byte
	x := uint64(3)
	for len(out) < size {
		x = x*6364136223846793005 + 1442695040888963407
		out = fmt.Appendf(out, `{"id":%d,"user":"user-%x","score":%.3f,"tags":["%s","budget"],"active":%v,"note":%q},`,
			x>>40, x>>44, float64(x>>50)/7, []string{"alpha", "beta", "gamma"}[x>>33%3], x>>63 == 1, english[x>>33%16])
	}
	return out[:size]
}

func reference(t testing.TB, name string) *tiktoken.Tiktoken {
	t.Helper()
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	e, err := tiktoken.GetEncoding(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func BenchmarkCount(b *testing.B) {
	for _, name := range append([]string{"o200k_base", "cl100k_base"}, vendors...) {
		e := get(b, name)
		for what, text := range corpora(b) {
			b.Run(name+"/"+what, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					e.Count(text)
				}
			})
		}
	}
}

func BenchmarkCountOf1KB(b *testing.B) {
	e, text := get(b, "o200k_base"), corpora(b)["English"][:1024]
	b.SetBytes(1024)
	b.ReportAllocs()
	for b.Loop() {
		e.Count(text)
	}
}

func BenchmarkCountOnTwoCores(b *testing.B) {
	e := get(b, "o200k_base")
	for what, text := range corpora(b) {
		b.Run(what, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				e.CountParallel(text, 2)
			}
		})
	}
}

func BenchmarkReference(b *testing.B) {
	for _, name := range []string{"o200k_base", "cl100k_base"} {
		e := reference(b, name)
		for what, text := range corpora(b) {
			b.Run(name+"/"+what, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					e.EncodeOrdinary(string(text))
				}
			})
		}
	}
}

// BenchmarkBuild measures what the first use of an encoding costs, and what its
// tables take.
func BenchmarkBuild(b *testing.B) {
	live := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	for _, name := range slices.Concat(names, vendors) {
		b.Run(name, func(b *testing.B) {
			sink.Store(nil)
			before := live()
			defer func() { b.ReportMetric(live()-before, "MB-live") }()
			for b.Loop() {
				e, err := build(name, origins[name])
				if err != nil {
					b.Fatal(err)
				}
				sink.Store(e)
			}
		})
	}
}

var sink atomic.Pointer[Encoding]
