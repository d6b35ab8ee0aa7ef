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
	fields, err := readForm(c.Request.Body, boundary)
	if err != nil {
		return err
	}
	text := func(name string) string { return string(c.Request.Body[fields[name].Start:fields[name].End]) }
	c.ModelSpan = fields["model"]
	if c.Model == "" {
		c.Model = text("model")
	}
	c.User = text("user")
	if err := request.CheckModel(c.Model); err != nil {
		return err
	}
	if c.Stream, err = formSwitch(text("stream")); err != nil {
		return err
	}
	return formChoices(c, text("n"))
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

func formChoices(c *dialect.Call, value string) error {
	if value == "" {
		return nil
	}
	n, flaw := jsonscan.Integer([]byte(value))
	if flaw != jsonscan.NoFlaw || n < 1 {
		return fault.Invalid("n", fmt.Sprintf("n must be a whole number from 1 to %d.", int64(jsonscan.MaxInteger)))
	}
	c.Choices = min(tokens.Count(n), tokens.MaxCount)
	return nil
}

// readForm finds the short fields of a form. A field that comes twice is an
// error, as a server may read either.
func readForm(body []byte, boundary string) (map[string]dialect.Span, error) {
	delimiter := []byte("--" + boundary)
	fields := map[string]dialect.Span{}
	at := 0
	if !bytes.HasPrefix(body, delimiter) {
		at = nextDelimiter(body, 0, delimiter)
	}
	if boundary == "" || at < 0 {
		return nil, brokenForm("its boundary is missing")
	}
	for {
		at += len(delimiter)
		if bytes.HasPrefix(body[at:], []byte("--")) {
			return fields, nil
		}
		line := bytes.Index(body[at:], crlf)
		head := bytes.Index(body[at:], []byte("\r\n\r\n"))
		if line < 0 || head < 0 {
			return nil, brokenForm("a part has no end")
		}
		lead, start := at+line+len(crlf), at+head+len("\r\n\r\n")
		if at = nextDelimiter(body, start, delimiter); at < 0 {
			return nil, brokenForm("a part has no end")
		}
		end := max(start, at-len(crlf))
		if err := addField(fields, body[lead:start], dialect.Span{Start: start, End: end}); err != nil {
			return nil, err
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

func addField(fields map[string]dialect.Span, head []byte, value dialect.Span) error {
	header, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(head))).ReadMIMEHeader()
	if err != nil && !errors.Is(err, io.EOF) {
		return brokenForm("a part's head cannot be read")
	}
	_, params, err := mime.ParseMediaType(header.Get("Content-Disposition"))
	if err != nil {
		return brokenForm("a part has no name")
	}
	name := params["name"]
	switch name {
	case "model", "stream", "n", "user":
	default:
		return nil
	}
	_, isFile := params["filename"]
	if _, twice := fields[name]; twice || isFile || value.End-value.Start > maxField {
		return fault.Invalid(name, fmt.Sprintf("The form must have one field called %s, a short text.", name))
	}
	fields[name] = value
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
