package openai

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/textproto"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/fault"
	"llmgw/internal/jsonscan"
	"llmgw/internal/tokens"
)

// maxField is the longest value of a form's field that is read.
const maxField = 1 << 10

// parseForm reads a multipart form: its model may come after megabytes of file.
// ModelSpan is the bare value, without quotes.
func parseForm(c *dialect.Call, boundary string) error {
	f, err := readForm(c.Request.Body, boundary)
	if err != nil {
		return err
	}
	text := func(name string) string { return string(c.Request.Body[f.fields[name].Start:f.fields[name].End]) }
	c.ModelSpan, c.Sound = f.fields["model"], f.sound
	if c.Model == "" {
		c.Model = text("model")
	}
	c.User, c.Session = request.SplitUser(text("user"))
	if err := request.CheckModel(c.Model); err != nil {
		return err
	}
	if c.Stream, err = formSwitch(text("stream")); err != nil {
		return err
	}
	if n, ok, err := formNumber("n", text("n"), request.FromOne); err != nil {
		return err
	} else if ok {
		c.Choices = n
	}
	c.Picture = dialect.Picture{Size: text("size"), Quality: text("quality"), Fidelity: text("input_fidelity"), Prompt: f.fields["prompt"], Sources: f.pictures}
	c.Picture.Partial, _, err = formNumber("partial_images", text("partial_images"), request.FromZero)
	return err
}

func formSwitch(value string) (bool, error) {
	switch value {
	case "true", "True", "1":
		return true, nil
	case "", "false", "False", "0":
		return false, nil
	}
	return false, fault.Invalid("stream", "stream must be true or false.")
}

// formNumber reads a whole number; ok is false for an empty value.
func formNumber(name, value string, least request.Least) (n tokens.Count, ok bool, err error) {
	if value == "" {
		return 0, false, nil
	}
	i, flaw := jsonscan.Integer([]byte(value))
	if flaw != jsonscan.NoFlaw || i < int64(least) {
		return 0, false, fault.Invalid(name, fmt.Sprintf("%s must be a whole number from %d to %d.", name, least, int64(jsonscan.MaxInteger)))
	}
	return min(tokens.Count(i), tokens.MaxCount), true, nil
}

// formParts are what is read of a form.
type formParts struct {
	fields   map[string]dialect.Span // its short fields, and its prompt
	pictures int
	sound    dialect.Span // its largest file
}

// readForm finds the short fields of a form. A field that comes twice is an
// error, as a server may read either.
func readForm(body []byte, boundary string) (formParts, error) {
	delimiter := []byte("--" + boundary)
	f := formParts{fields: map[string]dialect.Span{}}
	at := 0
	if !bytes.HasPrefix(body, delimiter) {
		at = nextDelimiter(body, 0, delimiter)
	}
	if boundary == "" || at < 0 {
		return f, brokenForm("its boundary is missing")
	}
	for {
		at += len(delimiter)
		if bytes.HasPrefix(body[at:], []byte("--")) {
			return f, nil
		}
		line := bytes.Index(body[at:], crlf)
		head := bytes.Index(body[at:], []byte("\r\n\r\n"))
		if line < 0 || head < 0 {
			return f, brokenForm("a part has no end")
		}
		lead, start := at+line+len(crlf), at+head+len("\r\n\r\n")
		if at = nextDelimiter(body, start, delimiter); at < 0 {
			return f, brokenForm("a part has no end")
		}
		end := max(start, at-len(crlf))
		if err := f.add(body[lead:start], dialect.Span{Start: start, End: end}); err != nil {
			return f, err
		}
	}
}

var crlf = []byte("\r\n")

// nextDelimiter returns the offset of the next delimiter line, which is more
// than a line that begins like one; -1 if there is none.
func nextDelimiter(body []byte, from int, delimiter []byte) int {
	for {
		i := bytes.Index(body[from:], delimiter)
		if i < 0 {
			return -1
		}
		at := from + i
		from = at + len(delimiter)
		rest := bytes.TrimLeft(body[from:min(len(body), from+maxPadding)], " \t")
		if bytes.HasSuffix(body[:at], crlf) && (bytes.HasPrefix(rest, crlf) || bytes.HasPrefix(body[from:], []byte("--"))) {
			return at
		}
	}
}

// maxPadding bounds the blanks behind a delimiter.
const maxPadding = 64

// add notes a part of the form.
func (f *formParts) add(head []byte, value dialect.Span) error {
	header, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(head))).ReadMIMEHeader()
	if err != nil && !errors.Is(err, io.EOF) {
		return brokenForm("a part's head cannot be read")
	}
	_, params, err := mime.ParseMediaType(header.Get("Content-Disposition"))
	if err != nil {
		return brokenForm("a part has no name")
	}
	name := params["name"]
	if err := request.CheckName(name); err != nil {
		return err
	}
	_, isFile := params["filename"]
	_, twice := f.fields[name]
	switch name {
	case "model", "stream", "n", "user", "size", "quality", "input_fidelity", "partial_images":
		if twice || isFile || value.End-value.Start > maxField {
			return fault.Invalid(name, fmt.Sprintf("The form must have one field called %s, a short text.", name))
		}
	case "prompt":
		if twice {
			return fault.Invalid(name, "The form must have one field called prompt.")
		}
	case "image", "image[]", "mask":
		f.pictures++
		return nil
	case "file", "file[]":
		if value.End-value.Start > f.sound.End-f.sound.Start {
			f.sound = value
		}
		return nil
	default:
		return nil
	}
	f.fields[name] = value
	return nil
}

func brokenForm(why string) error {
	return fault.Invalid("", fmt.Sprintf("The request's body is not a valid form: %s.", why))
}

// formBody is a form with the model's name written where it differs, or where
// only the path had it.
func formBody(c *dialect.Call, to dialect.Upstream, boundary string) [][]byte {
	body := c.Request.Body
	if to.Model == "" || to.Model == c.Model && !inPath(c) {
		return [][]byte{body}
	}
	if !c.ModelSpan.Empty() {
		return request.Splice(body, []request.Edit{{At: c.ModelSpan, Text: []byte(to.Model)}})
	}
	at := max(0, bytes.Index(body, []byte("--"+boundary)))
	field := fmt.Appendf(nil, "--%s\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n%s\r\n", boundary, to.Model)
	return request.Splice(body, []request.Edit{{At: dialect.Span{Start: at, End: at}, Text: field}})
}
