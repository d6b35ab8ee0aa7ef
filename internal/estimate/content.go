package estimate

import "llmgw/internal/jsonscan"

// maxDepth is how deep content is read in its structure; what is deeper counts
// as JSON. Each level costs one more look at the bytes.
const maxDepth = 6

// content counts text, a part, or a list of either.
func (r *reader) content(raw []byte, depth int) {
	if depth > maxDepth {
		r.t.text += r.json(raw)
		return
	}
	switch jsonscan.KindAt(raw, 0) {
	case jsonscan.String:
		r.text(raw)
	case jsonscan.Array:
		for e := jsonscan.ElementsAt(raw, 0); e.Next(); {
			r.content(e.Bytes(), depth+1)
		}
	case jsonscan.Object:
		r.part(raw, depth)
	}
}

// part counts one part of a content: text, an image, a file, a call, a result.
func (r *reader) part(raw []byte, depth int) {
	if depth > maxDepth {
		r.t.text += r.json(raw)
		return
	}
	var detail, kind []byte
	var names nameSet
	named, call := false, false
	for m := jsonscan.MembersAt(raw, 0); m.Next(); {
		names.add(m.Key())
		switch string(m.Key()) {
		case "detail":
			detail = m.Bytes()
		case "type":
			kind = unescaped(m.Bytes())
		case "name", "toolUseId":
			named = true
		case "arguments", "args", "input":
			call = true
		}
	}
	if named && call {
		r.t.overhead += r.model.chat.call
	}
	mediaType := imageType
	isFile := false
	switch string(kind) {
	case "document", "input_file", "file":
		mediaType, isFile = documentType, true
	case "image", "input_image":
		isFile = true
	}
	last := names.last(raw)
	for m := jsonscan.MembersAt(raw, 0); m.Next(); {
		if last.hides(&m) {
			continue
		}
		switch key, value := string(m.Key()), m.Bytes(); key {
		case "image_url":
			r.imageURL(value, detail)
		case "source":
			r.source(value, mediaType, depth)
		case "file_id":
			if isFile { // else it names the file that a result is from
				r.media([]byte(mediaType), nil, detail)
			}
		default:
			r.member(key, value, depth)
		}
	}
}

// What data is whose type is not told.
const (
	imageType    = "image/"
	documentType = "application/pdf"
	textType     = "text/plain"
)

// member counts one member of a part or item by its name, which means the same
// in all APIs that have it.
func (r *reader) member(key string, value []byte, depth int) {
	switch key {
	case "type", "id", "role", "index", "status", "call_id", "tool_call_id", "tool_use_id", "toolUseId", "detail",
		"cache_control", "cachePoint", "cache_breakpoint", "signature", "thoughtSignature", "thought_signature", "thought",
		"encrypted_content", "redactedContent", "media_type", "mimeType", "mime_type", "file_id", "is_error", "format",
		"citations", "annotations", "logprobs", "created_by", "obfuscation", "phase", "model", "images_detail":
	case "text", "input_text", "output_text", "refusal", "thinking", "reasoning", "reasoning_content",
		"arguments", "name", "title", "context", "code", "query", "transcript", "queries", "output", "stdout", "stderr", "logs", "diff":
		r.content(value, depth+1)
	case "input", "args", "response", "json":
		r.inline(value, depth)
	case "image_url":
		r.imageURL(value, nil)
	case "image":
		r.image(value)
	case "images":
		r.allImages(value)
	case "inlineData", "inline_data":
		r.blob(value)
	case "input_audio", "audio":
		r.audio(value)
	case "video", "video_url", "input_video":
		r.video(value)
	case "file", "fileData", "file_data", "file_url", "document":
		r.file(value, depth)
	default:
		r.opaque(value, depth)
	}
}

// inline counts text, or a value that the model sees as JSON.
func (r *reader) inline(value []byte, depth int) {
	switch jsonscan.KindAt(value, 0) {
	case jsonscan.String:
		r.text(value)
	case jsonscan.Array:
		r.content(value, depth+1)
	case jsonscan.Object:
		r.t.text += r.json(value)
	}
}

// opaque counts what is not known: language, and data by what it says it is.
func (r *reader) opaque(value []byte, depth int) {
	switch jsonscan.KindAt(value, 0) {
	case jsonscan.String:
		switch inner := unescaped(value); {
		case isDataURI(inner), looksEncoded(inner) && isImage(inner):
			r.media([]byte(imageType), inner, nil)
		case !encoded(inner):
			r.text(value)
		}
	case jsonscan.Array, jsonscan.Object:
		r.content(value, depth+1)
	}
}

// source counts where an image or document of Anthropic's or Bedrock's comes
// from; fallback is its media type if it does not tell.
func (r *reader) source(value []byte, fallback string, depth int) {
	if jsonscan.KindAt(value, 0) != jsonscan.Object {
		r.opaque(value, depth)
		return
	}
	mediaType := []byte(fallback)
	var data, content []byte
	plain := false
	for m := jsonscan.MembersAt(value, 0); m.Next(); {
		switch string(m.Key()) {
		case "data", "bytes", "url", "file_id", "s3Location":
			data = m.Bytes()
		case "media_type":
			mediaType = unescaped(m.Bytes())
		case "content", "text":
			content = m.Bytes()
		case "type":
			plain = string(m.Bytes()) == `"text"`
		}
	}
	switch {
	case content != nil:
		r.content(content, depth+1)
	case plain:
		r.text(data)
	case data != nil:
		r.media(mediaType, unescaped(data), nil)
	}
}
