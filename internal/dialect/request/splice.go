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

// Member makes the edit that gives a call's body a member: its value is
// replaced if it stands there, else the member is put first.
func Member(c *dialect.Call, key string, value []byte) Edit {
	for _, m := range c.Members {
		if m.Key == key {
			return Edit{At: m.Value, Text: value}
		}
	}
	return first(c.BodyObject, key, value, comma(len(c.Members)))
}

// MemberOf does what Member does, for the object that starts at a brace within
// the body.
func MemberOf(data []byte, brace int, key string, value []byte) Edit {
	others := 0
	edit := Edit{}
	for m := jsonscan.MembersAt(data, brace); m.Next(); others++ {
		if m.Is(key) {
			v := m.Value()
			edit = Edit{At: v, Text: value}
		}
	}
	if !edit.At.Empty() {
		return edit
	}
	return first(brace, key, value, comma(others))
}

// first puts a member behind an object's brace, followed by a comma if others
// follow.
func first(brace int, key string, value []byte, comma string) Edit {
	text := append(AppendString(nil, key), ':')
	text = append(text, value...)
	text = append(text, comma...)
	return Edit{At: dialect.Span{Start: brace + 1, End: brace + 1}, Text: text}
}

func comma(others int) string {
	if others == 0 {
		return ""
	}
	return ","
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
