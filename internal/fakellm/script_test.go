package fakellm

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestANameSaysWhatShallHappen(t *testing.T) {
	for _, s := range []struct {
		name string
		want func(*Script) // changes the plain script into the one that is meant
	}{
		{"sim", func(*Script) {}},
		{"sim-out50", func(s *Script) { s.Output = 50 }},
		{"sim-in20-out5-report900", func(s *Script) { s.Input, s.Output, s.Report = 20, 5, 900 }},
		{"sim-cached8-write3-reason2", func(s *Script) { s.Cached, s.Written, s.Reasoning = 8, 3, 2 }},
		{"sim-tool-once", func(s *Script) { s.Tool, s.Once = true, true }},
		{"sim-size16k", func(s *Script) { s.Size = 16 << 10 }},
		{"sim-big2m", func(s *Script) { s.Big = 2 << 20 }},
		{"sim-size7", func(s *Script) { s.Size = 7 }},
		{"sim-wait1.5s-every20ms-hold0s-tail1m", func(s *Script) {
			s.Wait, s.Every, s.Hold, s.Tail = 1500*time.Millisecond, 20*time.Millisecond, 0, time.Minute
		}},
		{"sim-wait0s", func(s *Script) { s.Wait = 0 }},
		{"sim-fail500", func(s *Script) { s.Fail = 500 }},
		{"sim-fail429x2-after700ms", func(s *Script) { s.Fail, s.FailTimes, s.After = 429, 2, 700*time.Millisecond }},
		{"sim-fail429-quota", func(s *Script) { s.Fail, s.Quota = 429, true }},
		{"sim-cut", func(s *Script) { s.Cut = 0 }},
		{"sim-cut5", func(s *Script) { s.Cut = 5 }},
		{"sim-end2-err0", func(s *Script) { s.End, s.Err = 2, 0 }},
		{"sim-hang", func(s *Script) { s.Hang = hangAtOnce }},
		{"sim-hang0", func(s *Script) { s.Hang = 0 }},
		{"sim-bytes", func(s *Script) { s.Bytes = true }},
		{"sim-bytes1ms", func(s *Script) { s.Bytes, s.BytesEvery = true, time.Millisecond }},
		{"sim-crlf-bom-comments-nospace-lines-noblank", func(s *Script) {
			s.CRLF, s.BOM, s.Comments, s.NoSpace, s.Lines, s.NoBlank = true, true, true, true, true, true
		}},
		{"sim-nousage-nodone-unasked", func(s *Script) { s.NoUsage, s.NoDone, s.Unasked = true, true, true }},
		{"sim-tag17", func(*Script) {}},
	} {
		t.Run(s.name, func(t *testing.T) {
			got, err := ParseScript(s.name)
			if err != nil {
				t.Fatal(err)
			}
			want, err := ParseScript("sim")
			if err != nil {
				t.Fatal(err)
			}
			s.want(&want)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestAWordThatIsNotUnderstoodIsNamed(t *testing.T) {
	for _, s := range []struct{ name, word string }{
		{"gpt-4o", "gpt-4o"},
		{"sim-outt5", "outt5"},
		{"sim-out", `"out"`},
		{"sim-out5-out", `"out"`},
		{"sim-out99999999999999999999", "out99999999999999999999"},
		{"sim-out5x", "out5x"},
		{"sim-wait5", "wait5"},
		{"sim-wait5parsecs", "wait5parsecs"},
		{"sim-wait100h", "wait100h"},
		{"sim-fail200", "fail200"},
		{"sim-fail500x", "fail500x"},
		{"sim-fail500x0", "fail500x0"},
		{"sim-size65m", "size65m"},
		{"sim-size5q", "size5q"},
		{"sim-crlf2", "crlf2"},
		{"sim-bytes5", "bytes5"},
		{"sim-", `""`},
		{"sim--out5", `""`},
	} {
		t.Run(s.name, func(t *testing.T) {
			_, err := ParseScript(s.name)
			if err == nil || !strings.Contains(err.Error(), s.word) {
				t.Errorf("error = %v, want one that names %s", err, s.word)
			}
		})
	}
}

func TestTheHelpExplainsEveryWord(t *testing.T) {
	for _, d := range grammar {
		if !strings.Contains(Usage, "  "+d.word) || d.help == "" {
			t.Errorf("%s is not explained", d.word)
		}
	}
}

func TestNoWordHidesAnother(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range grammar {
		if seen[d.word] {
			t.Errorf("%s stands twice", d.word)
		}
		seen[d.word] = true
		if strings.ContainsAny(d.word, "0123456789-") {
			t.Errorf("%s cannot be written: a value starts at the first digit", d.word)
		}
	}
}

func TestOptionsFillInWhatANameLeavesOpen(t *testing.T) {
	o := Options{Latency: 5 * time.Millisecond, ChunkInterval: time.Millisecond}
	for _, s := range []struct {
		name        string
		wait, every time.Duration
	}{
		{"sim", 5 * time.Millisecond, time.Millisecond},
		{"sim-wait0s", 0, time.Millisecond},
		{"sim-every3ms", 5 * time.Millisecond, 3 * time.Millisecond},
	} {
		parsed, err := ParseScript(s.name)
		if err != nil {
			t.Fatal(err)
		}
		if got := parsed.with(o); got.Wait != s.wait || got.Every != s.every {
			t.Errorf("%s: waits %v and %v, want %v and %v", s.name, got.Wait, got.Every, s.wait, s.every)
		}
	}
}

func FuzzScript(f *testing.F) {
	for _, seed := range []string{"sim", "sim-out5", "sim-fail500x2-after1s", "sim-size1k", "sim-bytes1ms", "sim--", "sim-é1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		s, err := ParseScript(name)
		if err != nil {
			return
		}
		if !isScript(name) {
			t.Errorf("%q was read as a script", name)
		}
		if s.Output > maxOutput || s.Size > maxBytes || s.Big > maxBytes || s.Wait > maxPause {
			t.Errorf("%q asks for too much: %+v", name, s)
		}
	})
}
