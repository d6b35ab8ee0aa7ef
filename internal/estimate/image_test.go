package estimate

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	stdpng "image/png"
	"regexp"
	"testing"
)

// encodedImages are images of one size in every format whose header is read.
func encodedImages(t *testing.T, w, h int) map[string][]byte {
	t.Helper()
	picture := image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black, color.White})
	var p, g, j bytes.Buffer
	for _, err := range []error{stdpng.Encode(&p, picture), gif.Encode(&g, picture, nil), jpeg.Encode(&j, picture, nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	le := binary.LittleEndian
	bmp := append([]byte("BM"), make([]byte, 52)...)
	le.PutUint32(bmp[18:], uint32(w))
	le.PutUint32(bmp[22:], uint32(-int32(h))) // top down
	lossy := append([]byte("RIFF\x00\x00\x00\x00WEBPVP8 "), make([]byte, 20)...)
	le.PutUint16(lossy[26:], uint16(w))
	le.PutUint16(lossy[28:], uint16(h))
	lossless := append([]byte("RIFF\x00\x00\x00\x00WEBPVP8L"), make([]byte, 20)...)
	le.PutUint32(lossless[21:], uint32(w-1)|uint32(h-1)<<14)
	extended := append([]byte("RIFF\x00\x00\x00\x00WEBPVP8X"), make([]byte, 20)...)
	le.PutUint32(extended[24:], uint32(w-1))
	le.PutUint32(extended[27:], uint32(h-1))

	// A photograph has an application's segment of 60 KB with a preview first.
	photo := append([]byte{0xff, 0xd8, 0xff, 0xe1, 60_000 >> 8, 60_000 & 0xff}, make([]byte, 59_998)...)
	photo = append(photo, j.Bytes()[2:]...)
	return map[string][]byte{
		"png": p.Bytes(), "gif": g.Bytes(), "jpeg": j.Bytes(), "photo": photo, "bmp": bmp,
		"webp lossy": lossy, "webp lossless": lossless, "webp extended": extended,
	}
}

func TestSizesAreReadFromHeaders(t *testing.T) {
	for name, data := range encodedImages(t, 300, 170) {
		text := []byte(base64.StdEncoding.EncodeToString(data))
		if got, ok := sizeOfBase64(text); !ok || got != (size{300, 170}) {
			t.Errorf("%s: %v %v, want 300x170", name, got, ok)
		}
		escaped := bytes.ReplaceAll(text, []byte("/"), []byte(`\/`))
		if got, ok := sizeOfBase64(escaped); !ok || got != (size{300, 170}) {
			t.Errorf("%s with escapes: %v %v, want 300x170", name, got, ok)
		}
		lines := regexp.MustCompile(`.{76}`).ReplaceAll(text, []byte(`$0\r\n`))
		if got, ok := sizeOfBase64(lines); !ok || got != (size{300, 170}) {
			t.Errorf("%s in lines: %v %v, want 300x170", name, got, ok)
		}
		for cut := range min(len(data), 64) {
			sizeOf(data[:cut]) // must not panic
		}
	}
}

func TestNoSideIsBelievedToBeLongerThanPicturesAre(t *testing.T) {
	if got, ok := sizeOfBase64([]byte(png(1<<32-1, 20))); !ok || got != (size{mostPixels, 20}) {
		t.Errorf("%v %v, want %d at most", got, ok, mostPixels)
	}
}

func TestWhatIsNoImageHasNoSize(t *testing.T) {
	for _, data := range []string{"", "https://example.com/a.png", "not base64 at all", "AAAA", base64.StdEncoding.EncodeToString([]byte("\xff\xd8\xff\xe0\x00\x00")), base64.StdEncoding.EncodeToString(make([]byte, 300_000))} {
		if got, ok := sizeOfBase64([]byte(data)); ok {
			t.Errorf("%.20q has the size %v", data, got)
		}
	}
}

func TestImagesCostWhatTheirModelsRulesSay(t *testing.T) {
	for _, s := range []struct {
		model, detail string
		w, h          int
		want          int
	}{
		{"gpt-4o", "low", 4000, 4000, 85},
		{"gpt-4o", "", 512, 512, 255},
		{"gpt-4o", "high", 513, 512, 425},
		{"gpt-4o", "auto", 2048, 4096, 1105},
		{"gpt-4o-mini", "high", 512, 512, 8500},
		{"gpt-5", "high", 1024, 1024, 630},
		{"o3", "high", 128, 64, 225},
		{"computer-use-preview", "low", 100, 100, 65},
		{"computer-use-preview", "high", 1024, 1024, 65 + 4*129},
		{"gpt-image-1", "", 1024, 1024, 65 + 129},
		{"gpt-image-1.5", "", 1024, 1536, 65 + 2*129},
		{"gpt-5-mini", "", 1024, 1024, 1229},
		{"gpt-5-nano", "", 320, 320, 150},
		{"gpt-5.4", "high", 2048, 2048, 3000},
		{"gpt-5.4", "low", 2048, 2048, 4915},
		{"gpt-5.4", "high", 2000, 1500, 2941},      // shrunk until 57 patches fill a side: 57 x 43
		{"gpt-4o", "high", 4096, 1025, 85 + 4*170}, // 512.5 is 512
		{"gpt-4o", "high", 4096, 1027, 85 + 8*170}, // 513.5 is 514
		{"gpt-5.4", "original", 3200, 3200, 12000},
		{"gpt-5.5", "auto", 3200, 3200, 12000},
		{"gpt-5.6", "low", 2048, 2048, 307},
		{"gpt-5.6", "auto", 3200, 3200, 12000},
		{"gpt-5.6", "high", 2048, 2048, 3000},
		{"gpt-6-sol", "high", 2048, 2048, 3000},
		{"gpt-6-sol", "", 320, 320, 120},
		{"claude-opus-4-7", "", 1000, 1000, 1296},
		{"claude-sonnet-4-6", "", 3840, 2160, 1560},
		{"claude-3-haiku", "", 200, 200, 54},
		{"gemini-2.0-flash", "", 384, 384, 258},
		{"gemini-2.5-pro", "", 1000, 1000, 4 * 258},
		{"gemini-3-pro", "", 4000, 4000, 1120},
		{"unheard-of", "", 512, 512, 255},
		{"gpt-4o", "high", 1 << 16, 1, 85 + 4*170},
		{"gpt-4.1-mini", "high", 1 << 16, 1 << 16, 6636},
		{"claude-sonnet-5", "", 1 << 16, 1, 92},
	} {
		rule := resolve(nil, Rules{Model: s.model}).images
		if got := rule.tokens(size{s.w, s.h}, s.detail); got != s.want {
			t.Errorf("%s %dx%d %s: %d, want %d", s.model, s.w, s.h, s.detail, got, s.want)
		}
	}
}

func TestAnImageOfUnknownSizeCostsAsAUsualOne(t *testing.T) {
	for _, model := range []string{"gpt-4o", "gpt-4.1-mini", "claude-sonnet-5", "gemini-2.0-flash"} {
		rule := resolve(nil, Rules{Model: model}).images
		if got, want := rule.tokens(size{}, ""), rule.tokens(unknownSize, ""); got != want || got == 0 {
			t.Errorf("%s: %d, want %d", model, got, want)
		}
	}
}

// FuzzImages feeds what may be the beginning of an image.
func FuzzImages(f *testing.F) {
	f.Add([]byte(png(3, 4)))
	f.Add([]byte("R0lGODlhAQABAAAAACw="))
	f.Add([]byte(`\/9j\/4AAQ`))
	f.Add([]byte("https://example.com"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, s := range []func() (size, bool){
			func() (size, bool) { return sizeOfBase64(data) },
			func() (size, bool) { got, ok, _ := sizeOf(data); return got, ok },
		} {
			got, ok := s()
			if ok && (got.w <= 0 || got.h <= 0 || got.w > mostPixels || got.h > mostPixels) {
				t.Fatalf("%q has the size %v", data, got)
			}
			if !ok {
				continue
			}
			for _, model := range []string{"gpt-4o", "gpt-5.4", "claude-opus-4-7", "claude-3-opus", "gemini-2.0-flash"} {
				if n := resolve(nil, Rules{Model: model}).images.tokens(got, "high"); n <= 0 || n > 3_000_000 {
					t.Fatalf("%s: %v costs %d", model, got, n)
				}
			}
		}
	})
}
