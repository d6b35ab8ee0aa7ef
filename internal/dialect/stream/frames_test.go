package stream

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
)

// frame writes an AWS frame, with a header of each type before the ones that
// count.
func frame(kind, name, payload string) string {
	header := func(name string, kind byte, value string) string {
		return string(rune(len(name))) + name + string(rune(kind)) + value
	}
	str := func(s string) string { return string(binary.BigEndian.AppendUint16(nil, uint16(len(s)))) + s }
	var headers string
	for kind, size := range []int{0, 0, 1, 2, 4, 8, 0, 0, 8, 16} {
		value := strings.Repeat("\x07", size)
		if kind == 6 || kind == 7 {
			value = str("skipped")
		}
		headers += header("x", byte(kind), value)
	}
	headers += header(":message-type", 7, str(kind))
	if name != "" {
		headers += header(":"+kind+"-type", 7, str(name))
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(preludeSize+len(headers)+len(payload)+checkSize))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

func TestAFrameWhoseHeadersAreBrokenHasNoName(t *testing.T) {
	name := "\x0b:event-type\x07\x00\x03one"
	for what, headers := range map[string]string{
		"a name that is cut":         "\x0b:event",
		"no type":                    "\x01x",
		"an unknown type":            "\x01x\x0a" + name,
		"a length that is cut":       "\x01x\x07\x00",
		"a value that is cut":        "\x01x\x07\x00\x09short",
		"a number that is cut":       "\x01x\x05\x00",
		"another header of the kind": "\x0b:event-type\x06\x00\x03one",
		"nothing":                    "",
	} {
		b := binary.BigEndian.AppendUint32(nil, uint32(preludeSize+len(headers)+2+checkSize))
		b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
		b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
		b = append(append(b, headers...), "{}....."[:2+checkSize]...)
		if got := read(t, Frames, string(b)); !slices.Equal(got, []event{{"", "{}"}}) {
			t.Errorf("%s: got %v", what, got)
		}
	}
	good := AppendFrame(nil, [][2]string{{strings.Repeat("n", 200), strings.Repeat("v", 60000)}, {":event-type", "late"}}, []byte("{}"))
	if got := read(t, Frames, string(good)); !slices.Equal(got, []event{{"", "{}"}}) {
		t.Errorf("headers beyond what is kept: got %v", got)
	}
}

func TestAFrameWhoseLengthsAreImpossibleEndsTheReading(t *testing.T) {
	for what, lengths := range map[string][2]uint32{
		"too short":                 {15, 0},
		"headers beyond the frame":  {20, 5},
		"headers of four billion":   {100, 1<<32 - 1},
		"less than its own framing": {0, 0},
	} {
		b := binary.BigEndian.AppendUint32(nil, lengths[0])
		b = binary.BigEndian.AppendUint32(b, lengths[1])
		b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
		if got := read(t, Frames, string(b)+frame("event", "one", "{}")); len(got) > 0 {
			t.Errorf("%s: got %v", what, got)
		}
	}
}

func TestAnExceptionIsToldFromAnEvent(t *testing.T) {
	r := New(Frames)
	var got []bool
	for p := []byte(frame("event", "a", "{}") + frame("exception", "b", "{}") + frame("error", "c", "")); len(p) > 0; {
		n, _, what := r.Next(p)
		if what == End {
			got = append(got, r.Exception())
		}
		p = p[n:]
	}
	if want := []bool{false, true, true}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAFrameMayBeEmpty(t *testing.T) {
	text := string(AppendFrame(nil, nil, nil)) + string(AppendFrame(nil, [][2]string{{"", ""}, {":event-type", "x"}}, nil))
	for _, pieces := range append(cuts(text, 1), []string{text}) {
		if got := read(t, Frames, pieces...); !slices.Equal(got, []event{{"", ""}, {"x", ""}}) {
			t.Errorf("got %v", got)
		}
	}
}

func TestAFrameThatIsWrittenIsRead(t *testing.T) {
	text := string(AppendFrame([]byte("before"), [][2]string{{":message-type", "exception"}, {":exception-type", "bad"}}, []byte(`{"message":"no"}`)))
	got := read(t, Frames, strings.TrimPrefix(text, "before"))
	if want := []event{{"bad", `{"message":"no"}`}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// half is a frame that lacks the end of its check sum.
func half(frame string) string { return frame[:len(frame)-3] }
