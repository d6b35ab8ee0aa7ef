package estimate

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"slices"

	"llmgw/internal/jsonscan"
)

// size is an image's, in pixels.
type size struct{ w, h int }

// imageURL counts the value of image_url: an address, or an object with it.
func (r *reader) imageURL(value, detail []byte) {
	if jsonscan.KindAt(value, 0) == jsonscan.Object {
		if d := find(value, "detail"); d != nil {
			detail = d
		}
		value = find(value, "url")
	}
	if jsonscan.KindAt(value, 0) == jsonscan.String {
		r.media([]byte(imageType), unescaped(value), detail)
	}
}

// image counts the value of image: data, an address, or an object with either.
func (r *reader) image(value []byte) {
	if jsonscan.KindAt(value, 0) != jsonscan.Object {
		r.imageURL(value, nil)
		return
	}
	if source := find(value, "source"); source != nil {
		r.media([]byte(imageType), unescaped(find(source, "bytes")), nil)
		return
	}
	r.imageURL(value, nil)
}

// allImages counts images in a list, or one.
func (r *reader) allImages(raw []byte) {
	switch jsonscan.KindAt(raw, 0) {
	case jsonscan.Array:
		r.each(raw, (*reader).image)
	case jsonscan.String, jsonscan.Object:
		r.image(raw)
	}
}

// imageTokens is the price of one image given in base64, or as an address.
func (r *reader) imageTokens(data, detail []byte) int {
	s, ok := sizeOfBase64(data)
	if !ok {
		s = size{} // by the rule's default
	}
	return r.model.images.tokens(s, string(unescaped(detail)))
}

// The parts of an image that are decoded to find its size: enough for most
// headers, and then enough for a photograph's preview.
const (
	headBytes  = 1 << 10
	photoBytes = 128 << 10
)

// isImage tells whether data is an image in base64 whose size can be told.
func isImage(data []byte) bool {
	_, ok := sizeOfBase64(data)
	return ok
}

// sizeOfBase64 reads the size from the header of an image in base64 that may
// have the escapes of a JSON string. It decodes no more than it needs.
func sizeOfBase64(data []byte) (size, bool) {
	if bytes.HasPrefix(data, []byte("http")) {
		return size{}, false
	}
	for _, n := range [...]int{headBytes, photoBytes} {
		s, ok, more := sizeOf(decodeHead(data, n))
		if ok || !more || base64.StdEncoding.DecodedLen(len(data)) <= n {
			return s, ok
		}
	}
	return size{}, false
}

// decodeHead decodes up to n bytes from the start of base64.
func decodeHead(data []byte, n int) []byte {
	text := data[:min(len(data), base64.StdEncoding.EncodedLen(n))]
	if bytes.IndexByte(text, '\\') >= 0 { // an escaped slash, or line ends
		text = jsonscan.AppendText(nil, slices.Concat([]byte(`"`), text, []byte(`"`)))
		text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r"), nil), []byte("\n"), nil)
	}
	text = bytes.TrimRight(text, "=")
	text = text[:len(text)/4*4]
	out := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	got, err := base64.StdEncoding.Decode(out, text)
	if err != nil && got == 0 {
		got, _ = base64.URLEncoding.Decode(out, text)
	}
	return out[:got]
}

// sizeOf reads the size from the first bytes of a PNG, GIF, BMP, WebP or JPEG;
// more says that further bytes would help.
func sizeOf(b []byte) (s size, ok, more bool) {
	le, be := binary.LittleEndian, binary.BigEndian
	switch {
	case len(b) >= 24 && string(b[:8]) == "\x89PNG\r\n\x1a\n":
		s = size{int(be.Uint32(b[16:])), int(be.Uint32(b[20:]))}
	case len(b) >= 10 && string(b[:4]) == "GIF8":
		s = size{int(le.Uint16(b[6:])), int(le.Uint16(b[8:]))}
	case len(b) >= 26 && string(b[:2]) == "BM":
		h := int(int32(le.Uint32(b[22:])))
		s = size{int(int32(le.Uint32(b[18:]))), max(h, -h)}
	case len(b) >= 30 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		s = sizeOfWebP(b)
	case len(b) >= 4 && b[0] == 0xff && b[1] == 0xd8:
		return sizeOfJPEG(b)
	}
	s = size{min(s.w, mostPixels), min(s.h, mostPixels)}
	return s, s.w > 0 && s.h > 0, false
}

// mostPixels is the longest side that is believed.
const mostPixels = 1 << 16

func sizeOfWebP(b []byte) size {
	le := binary.LittleEndian
	switch string(b[12:16]) {
	case "VP8 ":
		return size{int(le.Uint16(b[26:]) & 0x3fff), int(le.Uint16(b[28:]) & 0x3fff)}
	case "VP8L":
		n := le.Uint32(b[21:])
		return size{int(n&0x3fff) + 1, int(n>>14&0x3fff) + 1}
	case "VP8X":
		return size{
			int(b[24]) | int(b[25])<<8 | int(b[26])<<16 + 1,
			int(b[27]) | int(b[28])<<8 | int(b[29])<<16 + 1,
		}
	}
	return size{}
}

// sizeOfJPEG looks for the segment that starts the frame.
func sizeOfJPEG(b []byte) (s size, ok, more bool) {
	for i := 2; ; {
		for i < len(b) && b[i] == 0xff {
			i++
		}
		if i+7 >= len(b) {
			return size{}, false, true
		}
		marker := b[i]
		if marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc {
			s = size{int(binary.BigEndian.Uint16(b[i+6:])), int(binary.BigEndian.Uint16(b[i+4:]))}
			return s, s.w > 0 && s.h > 0, false
		}
		length := int(binary.BigEndian.Uint16(b[i+1:]))
		if length < 2 {
			return size{}, false, false
		}
		i += 1 + length
	}
}
