package estimate

import (
	"bytes"
	"encoding/base64"
	"math"
	"slices"

	"llmgw/internal/jsonscan"
	"llmgw/internal/tokens"
)

// Rates of media per second, in tokens and in bytes where the length is not
// known: 24 kHz, 16 bit for raw sound, 1 Mbit/s for video.
const (
	openAIAudio = 10
	geminiAudio = 32
	geminiVideo = 263

	remoteSeconds = 60 // of sound and video that are not in the request

	rawAudioBytes = 48_000
	slowRawBytes  = 16_000 // 8 kHz
	videoBytes    = 125_000
)

// Files whose length is not known are taken to have a page for so many bytes.
const (
	pageBytes    = 48_000
	remotePages  = 4           // of files that are not in the request
	openAIPage   = 800 + 765   // text and an image in tiles
	claudePage   = 2250 + 1568 // text and an image
	geminiPage   = 258 + 560
	gemini3Page  = 560 + 560
	maxFilePages = 1000
)

// media counts data (base64, a data URI or an address) by its media type.
func (r *reader) media(mediaType, data, detail []byte) {
	if inner, ok := bytes.CutPrefix(data, []byte("data:")); ok {
		if head, body, ok := bytes.Cut(inner[:min(len(inner), 256)], []byte(",")); ok {
			mediaType, _, _ = bytes.Cut(head, []byte(";"))
			data = inner[len(inner[:min(len(inner), 256)])-len(body):]
		}
	}
	kind, sub, _ := bytes.Cut(mediaType, []byte("/"))
	if string(kind) == "application" && isImage(data) { // octet-stream, and the like
		kind = nil
	}
	if k := string(kind); decodedSize(data) == 0 && (k == "audio" || k == "video" || k == "text" || k == "application") {
		r.t.hidden |= hiddenFiles
	}
	switch string(kind) {
	case "audio":
		r.sound(r.audioTokens(data, string(sub)))
	case "video":
		r.t.media += r.videoTokens(data)
	case "text":
		r.t.media += base64.StdEncoding.DecodedLen(len(data)) / 3
	case "application":
		r.t.media += r.pages(data)
	default:
		r.t.images += r.imageTokens(data, detail)
		r.t.overhead += r.model.images.frame
	}
}

// blob counts Gemini's inline data.
func (r *reader) blob(value []byte) {
	mediaType := unescaped(find(value, "mimeType"))
	if mediaType == nil {
		mediaType = unescaped(find(value, "mime_type"))
	}
	r.media(mediaType, unescaped(find(value, "data")), nil)
}

// find returns the value of a member of an object, or nil.
func find(object []byte, name string) []byte {
	span, ok := jsonscan.Find(object, 0, name)
	if !ok {
		return nil
	}
	return span.Of(object)
}

// audio counts sound: an object with data and format, or a reference to an
// earlier answer.
func (r *reader) audio(value []byte) {
	if jsonscan.KindAt(value, 0) != jsonscan.Object {
		return
	}
	data := unescaped(find(value, "data"))
	if data == nil { // an earlier answer's, by its id
		return
	}
	format := unescaped(find(value, "format"))
	r.sound(r.audioTokens(data, string(format)))
}

// sound adds so many tokens of sound.
func (r *reader) sound(n int) {
	r.t.media += n
	r.t.sound += n
}

// video counts a moving picture, in data or behind an address.
func (r *reader) video(value []byte) {
	data := unescaped(value)
	if jsonscan.KindAt(value, 0) == jsonscan.Object {
		if data = unescaped(find(value, "url")); data == nil {
			data = unescaped(find(find(value, "source"), "bytes"))
		}
	}
	r.t.media += r.videoTokens(data)
}

// file counts a document: data or a reference in an object, or data alone.
func (r *reader) file(value []byte, depth int) {
	if jsonscan.KindAt(value, 0) == jsonscan.String {
		r.media([]byte(documentType), unescaped(value), nil)
		return
	}
	if source := find(value, "source"); source != nil {
		mediaType := documentType
		switch string(unescaped(find(value, "format"))) {
		case "txt", "md", "csv", "html": // Bedrock's
			mediaType = textType
		}
		r.source(source, mediaType, depth)
		return
	}
	mediaType := unescaped(find(value, "mimeType"))
	if data := find(value, "file_data"); data != nil {
		r.media([]byte(documentType), unescaped(data), nil)
		return
	}
	if text := find(value, "data"); text != nil { // Cohere's documents are text
		r.opaque(text, depth)
		return
	}
	if len(mediaType) == 0 {
		mediaType = []byte(documentType)
	}
	r.media(mediaType, nil, nil)
}

// decodedSize is how many bytes base64 holds; 0 if it is an address or nothing.
func decodedSize(data []byte) int {
	if bytes.HasPrefix(data, []byte("http")) || bytes.HasPrefix(data, []byte("gs:")) {
		return 0
	}
	return base64.StdEncoding.DecodedLen(len(data))
}

// audioTokens is the price of sound in base64, by how long it lasts; of sound
// that is elsewhere, a minute.
func (r *reader) audioTokens(data []byte, format string) int {
	if size := decodedSize(data); size == 0 {
		return remoteSeconds * r.audioRate()
	}
	return r.soundTokens(r.decoded(data), format)
}

// soundTokens is the price of sound. Where its container does not say how long
// it lasts, it is taken to be as long as so many bytes can be.
func (r *reader) soundTokens(data []byte, format string) int {
	seconds, ok := duration(data)
	if !ok {
		rate := slowestSound
		switch format {
		case "pcm", "pcm16":
			rate = rawAudioBytes
		case "l16":
			rate = slowRawBytes
		}
		seconds = float64(len(data)) / float64(rate)
	}
	return max(1, int(math.Ceil(seconds*float64(r.audioRate()))))
}

// audioRate is how many tokens a second of sound is.
func (r *reader) audioRate() int {
	if r.model.family == gemini {
		return geminiAudio
	}
	return openAIAudio
}

// decoded returns what base64 holds, until the next call. Of what is broken the
// rest is zeros, as long as it would be.
func (r *reader) decoded(data []byte) []byte {
	size := base64.StdEncoding.DecodedLen(len(data))
	r.out = slices.Grow(r.out[:0], size)[:size]
	clear(r.out)
	encoding := base64.StdEncoding
	if bytes.ContainsAny(data[:min(len(data), 4096)], "-_") {
		encoding = base64.URLEncoding
	}
	n, err := encoding.Decode(r.out, data)
	if err == nil {
		r.out = r.out[:n]
	}
	return r.out
}

// Sound is what a provider that bills seconds of sound would count for them in
// tokens, by OpenAI's rate.
func Sound(seconds int64) tokens.Count { return tokens.Count(seconds * openAIAudio) }

// videoTokens is the price of video in base64, by how long it lasts, else by its
// size; of video that is elsewhere, a minute.
func (r *reader) videoTokens(data []byte) int {
	size := decodedSize(data)
	if size == 0 {
		return remoteSeconds * geminiVideo
	}
	if seconds, ok := duration(r.decoded(data)); ok {
		return max(1, int(math.Ceil(seconds*geminiVideo)))
	}
	return geminiVideo * ((size + videoBytes - 1) / videoBytes)
}

// pages is the price of a document in base64, or behind an address.
func (r *reader) pages(data []byte) int {
	pages := remotePages
	if size := decodedSize(data); size > 0 {
		pages = min(maxFilePages, 1+size/pageBytes)
	}
	switch r.model.family {
	case claude:
		return pages * claudePage
	case gemini:
		if r.model.images.kind == fixedImage {
			return pages * gemini3Page
		}
		return pages * geminiPage
	}
	return pages * openAIPage
}
