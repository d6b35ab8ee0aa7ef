package estimate

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"testing"

	"llmgw/internal/dialect"
)

// What a few bytes of each container look like.

func le(values ...any) []byte { return packed(binary.LittleEndian, values...) }
func be(values ...any) []byte { return packed(binary.BigEndian, values...) }

func packed(order binary.AppendByteOrder, values ...any) (b []byte) {
	for _, v := range values {
		switch v := v.(type) {
		case string:
			b = append(b, v...)
		case []byte:
			b = append(b, v...)
		case byte:
			b = append(b, v)
		case uint16:
			b = order.AppendUint16(b, v)
		case int:
			b = order.AppendUint32(b, uint32(v))
		case uint64:
			b = order.AppendUint64(b, v)
		}
	}
	return b
}

// wav is a WAV file: samples of a rate, in 16 bit and one channel.
func wav(rate, samples int) []byte {
	return le("RIFF", 36+2*samples, "WAVE", "fmt ", 16, uint16(1), uint16(1), rate, 2*rate, uint16(2), uint16(16),
		"LIST", 3, "abc", byte(0), "data", 2*samples, make([]byte, 2*samples))
}

// mp3 is an MP3 file with a tag, of frames of 48 kHz at 32 and 320 kbit/s in turn.
func mp3(frames int) []byte {
	b := append([]byte("ID3\x04\x00\x00\x00\x00\x01\x00"), make([]byte, 128)...)
	for i := range frames {
		rate, size := byte(0x10), 96
		if i%2 == 1 {
			rate, size = 0xe0, 960
		}
		b = append(b, 0xff, 0xfb, rate|0x04, 0xc4)
		b = append(b, make([]byte, size-4)...)
	}
	return b
}

func oggPage(serial int, flags byte, position uint64, body []byte) []byte {
	return append(le("OggS", byte(0), flags, position, serial, 0, 0, byte(1), byte(len(body))), body...)
}

func opus(serial int, samples uint64) []byte {
	b := oggPage(serial, 2, 0, []byte("OpusHead\x01\x01"))
	b = append(b, oggPage(serial, 0, samples/2, []byte("sound"))...)
	return append(b, oggPage(serial, 4, samples, []byte("sound"))...)
}

func box(kind string, parts ...any) []byte {
	body := be(parts...)
	return be(8+len(body), kind, body)
}

// mp4 is an MP4 file whose parts may say different things.
func mp4(movie, track, samples int) []byte {
	stts := box("stts", 0, 1, samples, 1024)
	mdia := box("mdia", box("mdhd", 0, 0, 0, 48_000, track*48_000, 0), box("minf", box("stbl", stts)))
	return append(box("ftyp", "M4A ", 0), append(box("free", 0), box("moov", box("mvhd", 0, 0, 0, 1000, movie*1000), box("trak", mdia))...)...)
}

func ebml(id []byte, body ...any) []byte {
	b := be(body...)
	return be(id, byte(0x10|len(b)>>24), byte(len(b)>>16), byte(len(b)>>8), byte(len(b)), b)
}

// webm is a WebM file that says how long it is, unless that is 0, with a last
// block at a time in milliseconds.
func webm(seconds float64, last int) []byte {
	info := ebml([]byte{0x2a, 0xd7, 0xb1}, 1_000_000)
	if seconds > 0 {
		info = append(info, ebml([]byte{0x44, 0x89}, math.Float64bits(seconds*1000))...)
	}
	cluster := be(ebml([]byte{0xe7}, last-20), ebml([]byte{0xa3}, byte(0x81), uint16(20), byte(0), "sound"))
	live := []byte{0x18, 0x53, 0x80, 0x67, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff} // of unknown size
	return be([]byte{0x1a, 0x45, 0xdf, 0xa3, 0x80}, live, ebml([]byte{0x15, 0x49, 0xa9, 0x66}, info), ebml([]byte{0x1f, 0x43, 0xb6, 0x75}, cluster))
}

func flac(rate, samples uint64) []byte {
	return be("fLaC", byte(0), byte(0), uint16(34), make([]byte, 10), rate<<44|samples, make([]byte, 16))
}

func TestSoundLastsAsLongAsItsContainerSays(t *testing.T) {
	for _, s := range []struct {
		what    string
		data    []byte
		seconds float64
	}{
		{"WAV", wav(8000, 80_000), 10},
		{"WAV that is cut", wav(8000, 80_000)[:56+80_000], 5},
		{"WAV that streams and says no size", bytes.Replace(wav(8000, 8000), le("data", 16_000), le("data", -1), 1), 1},
		{"MP3 of changing rate", mp3(1000), 24},
		{"Opus for an hour", opus(7, 3600*48_000), 3600},
		{"two streams, one behind the other", append(opus(7, 96_000), opus(8, 48_000)...), 3},
		{"two streams of one number", append(opus(7, 96_000), opus(7, 48_000)...), 3},
		{"Vorbis", append(oggPage(1, 2, 0, le("\x01vorbis", 0, byte(1), 44_100, 0)), oggPage(1, 4, 441_000, nil)...), 10},
		{"MP4", mp4(60, 60, 0), 60},
		{"MP4 whose track is longer", mp4(1, 60, 0), 60},
		{"MP4 whose samples are longer", mp4(1, 1, 60*48_000/1024), 59.989},
		{"WebM", webm(60, 100), 60},
		{"WebM that was recorded live", webm(0, 90_020), 90.02},
		{"FLAC", flac(44_100, 441_000), 10},
		{"nothing known", []byte("some bytes that are no sound at all"), 0},
		{"nothing", nil, 0},
		{"FLAC that does not say", flac(44_100, 0), 0},
		{"WAV in a code of its own", bytes.Replace(wav(8000, 100), le("fmt ", 16, uint16(1)), le("fmt ", 16, uint16(0x31)), 1), 0},
	} {
		got, ok := duration(s.data)
		if math.Abs(got-s.seconds) > 0.001 || ok != (s.seconds > 0) {
			t.Errorf("%s: %v seconds (%v), want %v", s.what, got, ok, s.seconds)
		}
	}
}

func FuzzDuration(f *testing.F) {
	for _, seed := range [][]byte{wav(8000, 10), mp3(4), opus(1, 48_000), mp4(1, 2, 3), webm(1, 50), webm(0, 50), flac(44_100, 9)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if seconds, ok := duration(data); ok && !(seconds > 0 && seconds <= longestSound) {
			t.Errorf("%v seconds", seconds)
		}
	})
}

func TestSoundIsCountedByTheSecond(t *testing.T) {
	second := base64.StdEncoding.EncodeToString(wav(24_000, 24_000))
	hour := opus(7, 3600*48_000)
	for _, s := range []struct {
		what, model, body string
		media             int
	}{
		{"for OpenAI", "gpt-audio", `{"type":"input_audio","input_audio":{"format":"wav","data":"` + second + `"}}`, 10},
		{"whatever it is called", "gpt-audio", `{"type":"input_audio","input_audio":{"format":"mp3","data":"` + second + `"}}`, 10},
		{"for Gemini", "gemini-2.5-flash", `{"inlineData":{"mimeType":"audio/wav","data":"` + second + `"}}`, 32},
		{"an hour in little", "gpt-audio", `{"type":"input_audio","input_audio":{"format":"ogg","data":"` + base64.StdEncoding.EncodeToString(hour) + `"}}`, 36_000},
		{"a video", "gemini-2.5-flash", `{"inlineData":{"mimeType":"video/mp4","data":"` + base64.StdEncoding.EncodeToString(mp4(60, 60, 0)) + `"}}`, 60 * geminiVideo},
	} {
		got := estimated(t, New(Config{}), call(t, dialect.Chat, `{"messages":[{"role":"user","content":[`+s.body+`]}]}`), Rules{Model: s.model})
		if int(got.Parts.Media) != s.media {
			t.Errorf("%s: %d, want %d", s.what, got.Parts.Media, s.media)
		}
		if sound := s.what != "a video"; sound != (got.Allows.Audio == got.Parts.Media) {
			t.Errorf("%s: %d tokens of sound of %d", s.what, got.Allows.Audio, got.Parts.Media)
		}
	}
}

func TestATranscriptionIsCountedByItsFile(t *testing.T) {
	file := opus(7, 3600*48_000)
	body := append([]byte("--x\r\nhead"), file...)
	c := &dialect.Call{Request: dialect.Request{Body: append(body, "\r\n--x--"...)}, Model: "whisper-1", Choices: 1, Sound: dialect.Span{Start: 9, End: len(body)}}
	c.Endpoint.Operation = dialect.Transcribe
	if got := estimated(t, New(Config{}), c, Rules{}).Parts.Media; got != 36_000 {
		t.Errorf("an hour of sound in %d bytes: %d tokens, want 36000", len(file), got)
	}
	c.Sound = dialect.Span{}
	c.Body = make([]byte, 75_000)
	if got := estimated(t, New(Config{}), c, Rules{}).Parts.Media; got != 1000 {
		t.Errorf("sound that nobody can read: %d, want 1000", got)
	}
}
