package request

import (
	"slices"

	"llmgw/internal/dialect"
	"llmgw/internal/jsonscan"
)

// Edit replaces a range of a body by text. An empty range inserts.
type Edit struct {
	At   dialect.Span
	Text []byte
}

// Splice returns a body with its edits made, as segments that alias the body
// where it is unchanged. The edits must not overlap.
func Splice(body []byte, edits []Edit) [][]byte {
	if len(edits) == 0 {
		return [][]byte{body}
	}
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.At.Start - b.At.Start })
	segments := make([][]byte, 0, 2*len(edits)+1)
	from := 0
	for _, e := range edits {
		if e.At.Start > from {
			segments = append(segments, body[from:e.At.Start])
		}
		segments = append(segments, e.Text)
		from = e.At.End
	}
	if from < len(body) {
		segments = append(segments, body[from:])
	}
	return segments
}

// Member makes the edit that gives the object that starts at a brace a member:
// its value is replaced if it stands there, else the member is put first.
func Member(data []byte, brace int, key string, value []byte) Edit {
	if at, ok := jsonscan.Find(data, brace, key); ok {
		return Edit{At: dialect.Span{Start: at.Start, End: at.End}, Text: value}
	}
	text := append(AppendString(nil, key), ':')
	text = append(text, value...)
	if m := jsonscan.MembersAt(data, brace); m.Next() {
		text = append(text, ',')
	}
	return Edit{At: dialect.Span{Start: brace + 1, End: brace + 1}, Text: text}
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Valid UTF-8 stays as it is.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
