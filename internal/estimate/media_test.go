package estimate

import (
	"hash/maphash"
	"strings"
	"testing"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/estimate/bpe"
)

func mustEncoding(t testing.TB, name string) *bpe.Encoding {
	t.Helper()
	e, err := bpe.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// base64 of n bytes.
func bytesOf(n int) string { return strings.Repeat("AAAA", n/3) }

func TestMediaInEveryShape(t *testing.T) {
	for _, s := range []struct {
		what, model, part string
		images, media     int
	}{
		{"a second of raw sound", "gpt-4o-audio-preview", `{"type":"input_audio","input_audio":{"data":"` + bytesOf(48_000) + `","format":"pcm16"}}`, 0, 10},
		{"compressed sound that cannot be read", "gpt-4o-audio-preview", `{"type":"input_audio","input_audio":{"data":"` + bytesOf(15_000) + `","format":"mp3"}}`, 0, 200},
		{"an earlier answer's sound", "gpt-4o-audio-preview", `{"type":"audio","audio":{"id":"audio_1"}}`, 0, 0},
		{"sound for Gemini", "gemini-2.5-flash", `{"inline_data":{"mime_type":"audio/l16","data":"` + bytesOf(15_999) + `"}}`, 0, 32},
		{"sound elsewhere", "gemini-2.5-flash", `{"fileData":{"mimeType":"audio/mp3","fileUri":"gs://a/b"}}`, 0, 60 * 32},
		{"a video in the request", "gemini-2.5-flash", `{"inlineData":{"mimeType":"video/mp4","data":"` + bytesOf(124_998) + `"}}`, 0, 263},
		{"a video elsewhere", "gemini-2.5-flash", `{"fileData":{"mimeType":"video/mp4","fileUri":"https://x/y"}}`, 0, 60 * 263},
		{"an image elsewhere", "gemini-3-flash", `{"fileData":{"mimeType":"image/png","fileUri":"https://x/y"}}`, 1120, 0},
		{"a document for Gemini 3", "gemini-3-flash", `{"inlineData":{"mimeType":"application/pdf","data":"` + bytesOf(30_000) + `"}}`, 0, gemini3Page},
		{"a document for Gemini 2", "gemini-2.5-flash", `{"inlineData":{"mimeType":"application/pdf","data":"` + bytesOf(30_000) + `"}}`, 0, geminiPage},
		{"text in base64", "gemini-2.5-flash", `{"inlineData":{"mimeType":"text/plain","data":"` + bytesOf(300) + `"}}`, 0, 100},
		{"a file of OpenAI's", "gpt-4o", `{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,` + bytesOf(99_999) + `"}}`, 0, 3 * openAIPage},
		{"a file by its id", "gpt-4o", `{"type":"file","file":{"file_id":"file-1"}}`, 0, remotePages * openAIPage},
		{"a file of a response", "gpt-4o", `{"type":"input_file","file_id":"file-1"}`, 0, remotePages * openAIPage},
		{"its data", "gpt-4o", `{"type":"input_file","filename":"","file_data":"data:application/pdf;base64,` + bytesOf(30_000) + `"}`, 0, openAIPage},
		{"or its address", "gpt-4o", `{"type":"input_file","file_url":"https://x/y.pdf"}`, 0, remotePages * openAIPage},
		{"an image by its id", "gpt-4o", `{"type":"input_image","file_id":"file-1","detail":"low"}`, 85, 0},
		{"a document of Anthropic's", "claude-sonnet-5", `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"` + bytesOf(30_000) + `"}}`, 0, claudePage},
		{"by its id", "claude-sonnet-5", `{"type":"document","source":{"type":"file","file_id":"f"}}`, 0, remotePages * claudePage},
		{"an image of Anthropic's elsewhere", "claude-sonnet-5", `{"type":"image","source":{"type":"url","url":"https://x/y.png"}}`, 37 * 37, 0},
		{"a video of Bedrock's", "amazon.nova-pro", `{"video":{"format":"mp4","source":{"bytes":"` + bytesOf(124_998) + `"}}}`, 0, 263},
		{"a video by its address", "qwen-vl", `{"type":"video_url","video_url":{"url":"https://x/y.mp4"}}`, 0, 60 * 263},
		{"an image that cannot be read", "gpt-4o", `{"type":"image_url","image_url":{"url":"data:image/png;base64,!!!!"}}`, 765, 0},
		{"an image that is no string", "gpt-4o", `{"type":"image_url","image_url":7}`, 0, 0},
		{"no image at all", "gpt-4o", `{"type":"image_url"}`, 0, 0},
		{"sound that is no object", "gpt-4o", `{"type":"input_audio","input_audio":"x"}`, 0, 0},
	} {
		got := estimated(t, New(Config{}), call(t, dialect.Chat, `{"messages":[{"role":"user","content":[`+s.part+`]}]}`), Rules{Model: s.model}).Parts
		if int(got.Images) != s.images || int(got.Media) != s.media {
			t.Errorf("%s: images %d and media %d, want %d and %d", s.what, got.Images, got.Media, s.images, s.media)
		}
		if got.Text > 10 {
			t.Errorf("%s: %d tokens of text", s.what, got.Text)
		}
	}
}

// picture800KB asks about a picture of 800 KB.
func picture800KB() string {
	return `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + png(1024, 1024) + strings.Repeat("QUJD", 200_000) + `"}}]}]}`
}

func TestAnImageOf800KBIsCheap(t *testing.T) {
	got := estimated(t, New(Config{}), call(t, dialect.Chat, picture800KB()), Rules{Model: "gpt-4o"})
	if got.Input != 765+7 {
		t.Errorf("%d tokens, want 772", got.Input)
	}
}

func TestAnImageOf800KBIsQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("a race detector slows scanning more than counting: make test runs this")
	}
	e := warm(t)
	picture := call(t, dialect.Chat, picture800KB())
	text := call(t, dialect.Chat, `{"messages":[{"role":"user","content":"`+strings.Repeat("QUJD and some words ", 40_000)+`"}]}`)
	ofPicture, ofText := time.Hour, time.Hour
	quickest := func(so time.Duration, c *dialect.Call) time.Duration {
		e.cache.seed = maphash.MakeSeed() // forgets everything
		start := time.Now()
		estimated(t, e, c)
		return min(so, time.Since(start))
	}
	for range 10 {
		ofPicture, ofText = quickest(ofPicture, picture), quickest(ofText, text)
	}
	t.Logf("a picture of 800 KB takes %v, as much text %v", ofPicture, ofText)
	if 2*ofPicture > ofText { // counted as text it takes as long as text
		t.Errorf("it takes %v, want half of the %v of as much text at most", ofPicture, ofText)
	}
}
