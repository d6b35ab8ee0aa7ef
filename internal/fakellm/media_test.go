package fakellm

import (
	"encoding/base64"
	"image/png"
	"io"
	"strings"
	"testing"
)

// form is a multipart form of fields, and a file.
func form(fields ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(fields); i += 2 {
		b.WriteString("--zz\r\nContent-Disposition: form-data; name=\"" + fields[i] + "\"\r\n\r\n" + fields[i+1] + "\r\n")
	}
	b.WriteString("--zz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\x00--zz\r\n--zz--\r\n")
	return b.String()
}

func TestPicturesAreAsManyAsWereAskedFor(t *testing.T) {
	w := newWorld(t, Options{})
	for body, want := range map[string]int{
		`{"model":"sim-in20-out50","prompt":"x"}`:                        1,
		`{"model":"sim-in20-out50","prompt":"x","n":3}`:                  3,
		form("model", "sim-in20-out50", "prompt", "say \"x\"", "n", "2"): 2,
	} {
		got := w.object("/v1/images/edits", body)
		data := got["data"].([]any)
		if len(data) != want || dig(t, got, "usage.total_tokens") != float64(20+50*want) {
			t.Errorf("%s: %d pictures of %v tokens, want %d", body, len(data), dig(t, got, "usage.total_tokens"), want)
		}
		raw := base64.NewDecoder(base64.StdEncoding, strings.NewReader(data[0].(map[string]any)["b64_json"].(string)))
		if picture, err := png.Decode(raw); err != nil || picture.Bounds().Dx() != 1 {
			t.Errorf("%s: it is no picture: %v", body, err)
		}
	}
}

func TestSoundIsMadeAndHeard(t *testing.T) {
	w := newWorld(t, Options{})
	resp := w.post("/v1/audio/speech", `{"model":"sim-out5","input":"x","voice":"alloy"}`)
	sound, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(sound); resp.Header.Get("Content-Type") != "audio/mpeg" || !strings.HasPrefix(text, "ID3") || !strings.HasSuffix(text, "the budget of every team") {
		t.Errorf("got %s: %q", resp.Header.Get("Content-Type"), text)
	}
	got := w.object("/v1/audio/transcriptions", form("model", "sim-in20-out5", "stream", "false"))
	if got["text"] != "the budget of every team" || dig(t, got, "usage.input_tokens") != 20.0 || dig(t, got, "usage.output_tokens") != 5.0 {
		t.Errorf("got %v", got)
	}
	if got := w.object("/v1/audio/translations", form("model", "sim-out5-nousage")); got["usage"] != nil {
		t.Errorf("got %v, want no usage", got)
	}
	if broken := w.post("/v1/audio/transcriptions", "--zz\r\nbroken"); broken.StatusCode != 400 {
		t.Errorf("a broken form: got %d, want 400", broken.StatusCode)
	}
}
