package watch

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// packer is a compressor that can be flushed.
type packer interface {
	io.WriteCloser
	Flush() error
}

func packers(t testing.TB) map[string]func(io.Writer) packer {
	must := func(p packer, err error) packer {
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	return map[string]func(io.Writer) packer{
		"gzip":    func(w io.Writer) packer { return gzip.NewWriter(w) },
		"deflate": func(w io.Writer) packer { return zlib.NewWriter(w) },
		"br":      func(w io.Writer) packer { return brotli.NewWriter(w) },
		"zstd": func(w io.Writer) packer {
			return must(zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)))
		},
		"bare deflate": func(w io.Writer) packer { return must(flate.NewWriter(w, 5)) },
	}
}

func encodingOf(name string) string {
	if name == "bare deflate" {
		return "deflate"
	}
	return name
}

func TestWhatWasFlushedIsDecodedAtOnce(t *testing.T) {
	for name, pack := range packers(t) {
		var sent bytes.Buffer
		w := pack(&sent)
		var got []byte
		u := newUnpacker(encodingOf(name), func(p []byte) { got = append(got, p...) })
		var want []byte
		for i := range 5 {
			event := fmt.Appendf(nil, "data: event %d\n\n", i)
			want = append(want, event...)
			if _, err := w.Write(event); err != nil {
				t.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			u.write(sent.Bytes())
			sent.Reset()
			if !bytes.Equal(got, want) {
				t.Errorf("%s: after event %d: got %q, want %q", name, i, got, want)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		u.write(sent.Bytes())
		u.close()
		if !bytes.Equal(got, want) {
			t.Errorf("%s: in the end: got %q, want %q", name, got, want)
		}
	}
}

// packed is the whole of a text as pack makes it.
func packed(t *testing.T, pack func(io.Writer) packer, text []byte) []byte {
	t.Helper()
	var sent bytes.Buffer
	w := pack(&sent)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return sent.Bytes()
}

func TestTheWholeIsDecodedBeforeItsEndIsTold(t *testing.T) {
	text := []byte("data: {\"error\":{\"message\":\"no\"}}\n\ndata: [DONE]\n\n")
	for name, pack := range packers(t) {
		sent := packed(t, pack, text)
		var got []byte
		u := newUnpacker(encodingOf(name), func(p []byte) { got = append(got, p...) })
		u.write(sent)
		if !bytes.Equal(got, text) {
			t.Errorf("%s: got %q, want %q", name, got, text)
		}
		u.close()
	}
}

func TestDecodingDoesNotDependOnCuts(t *testing.T) {
	text := bytes.Repeat([]byte("a line of text, and some more\n"), 2000)
	for name, pack := range packers(t) {
		sent := packed(t, pack, text)
		for _, size := range []int{1, 7, 1000, 1 << 20} {
			var got []byte
			u := newUnpacker(encodingOf(name), func(p []byte) { got = append(got, p...) })
			for piece := range slices.Chunk(sent, size) {
				u.write(piece)
			}
			u.close()
			if !bytes.Equal(got, text) {
				t.Errorf("%s in pieces of %d: got %d bytes, want %d", name, size, len(got), len(text))
			}
		}
	}
}

func TestABrokenOrCutEncodingEndsTheDecoderQuietly(t *testing.T) {
	for name, pack := range packers(t) {
		sent := packed(t, pack, bytes.Repeat([]byte("text "), 1000))
		for what, text := range map[string][]byte{
			"nothing":  nil,
			"a half":   sent[:len(sent)/2],
			"noise":    []byte("this is no compressed text at all, whatever its header says"),
			"trailing": append(bytes.Clone(sent), "noise behind the end"...),
		} {
			u := newUnpacker(encodingOf(name), func([]byte) {})
			if text != nil {
				u.write(text)
				u.write(text)
			}
			u.close()
			if u.next == nil {
				continue
			}
			if _, more := u.next(); more {
				t.Errorf("%s, %s: the decoder still runs", name, what)
			}
		}
	}
}

func TestAnUnknownEncodingIsNotDecoded(t *testing.T) {
	for _, encoding := range []string{"compress", "gzip, br", "x"} {
		if newUnpacker(encoding, nil) != nil {
			t.Errorf("%s is decoded", encoding)
		}
	}
}
