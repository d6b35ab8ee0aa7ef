package coding

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// packed is text by each compressor, under the names that bodies come with.
func packed(t *testing.T, text string) map[string][]string {
	t.Helper()
	pack := func(open func(io.Writer) (io.WriteCloser, error)) string {
		var b strings.Builder
		w, err := open(&b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	zipped := pack(func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil })
	half := func(from, to int) string {
		return pack(func(w io.Writer) (io.WriteCloser, error) { return halved{gzip.NewWriter(w), from, to}, nil })
	}
	members := half(0, len(text)/2) + half(0, 0) + half(len(text)/2, len(text))
	return map[string][]string{
		"":         {text},
		"Identity": {text},
		"gzip":     {zipped},
		"X-GZip":   {zipped, members},
		"deflate": {
			pack(func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil }),
			pack(func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, 5) }),
		},
		"br":   {pack(func(w io.Writer) (io.WriteCloser, error) { return brotli.NewWriter(w), nil })},
		"ZSTD": {pack(func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) })},
	}
}

// halved is a compressor of a part of what it is given at once.
type halved struct {
	*gzip.Writer
	from, to int
}

func (h halved) Write(p []byte) (int, error) {
	_, err := h.Writer.Write(p[h.from:h.to])
	return len(p), err
}

func TestABodyIsReadInWhateverCodingItSays(t *testing.T) {
	text := strings.Repeat("what the provider said ", 1000)
	for name, bodies := range packed(t, text) {
		for _, body := range bodies {
			if !Known(name) {
				t.Errorf("%q is not known", name)
			}
			r, err := Open(name, strings.NewReader(body))
			if err != nil {
				t.Errorf("%q: %v", name, err)
				continue
			}
			got, err := io.ReadAll(r)
			if err != nil || string(got) != text {
				t.Errorf("%q: got %d bytes and %v, want %d", name, len(got), err, len(text))
			}
			if err := r.Close(); err != nil {
				t.Errorf("%q: close: %v", name, err)
			}
		}
	}
}

func TestABodyThatIsNotWhatItSaysIsAnError(t *testing.T) {
	text := []byte(`data: {"usage":{"prompt_tokens":10}}` + "\n\n")
	for _, name := range []string{"gzip", "deflate", "br", "zstd"} {
		r, err := Open(name, bytes.NewReader(text))
		if err == nil {
			_, err = io.ReadAll(r)
			_ = r.Close() // it has failed
		}
		if err == nil {
			t.Errorf("%s: plain text was taken for it", name)
		}
	}
}

func TestACodingThatNobodyKnowsIsSaidToBeUnknown(t *testing.T) {
	for _, name := range []string{"compress", "gzip, br", "dcz", "utf-8"} {
		if _, err := Open(name, strings.NewReader("x")); Known(name) || Plain(name) || !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: got %v", name, err)
		}
	}
	for _, name := range []string{"", " identity", "IDENTITY"} {
		if !Plain(name) {
			t.Errorf("%q is not plain", name)
		}
	}
}

func TestADecoderTakesNoWindowThatHTTPForbids(t *testing.T) {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(16<<20), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open("zstd", &b)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }() // nothing depends on it
	if n, err := io.Copy(io.Discard, r); err == nil {
		t.Errorf("%d bytes were decoded with a window of 16 MiB", n)
	}
}
