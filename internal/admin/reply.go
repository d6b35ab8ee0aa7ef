package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxBody bounds what operators send; explain, which takes a whole request
// body, has its own bound.
const maxBody = 64 << 10

func reply(w http.ResponseWriter, status int, v any) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		replyError(w, http.StatusInternalServerError, "internal_error", "The answer could not be written as JSON.")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// The operator went away: there is nobody to tell.
	_, _ = w.Write(buf.Bytes())
}

type errorBody struct {
	Error  errorText `json:"error"`
	Errors []string  `json:"errors,omitempty"`
}

type errorText struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func replyError(w http.ResponseWriter, status int, code, message string) {
	reply(w, status, errorBody{Error: errorText{code, message}})
}

func badRequest(w http.ResponseWriter, format string, args ...any) {
	replyError(w, http.StatusBadRequest, "invalid_request", fmt.Sprintf(format, args...))
}

func notFound(w http.ResponseWriter, what string) {
	replyError(w, http.StatusNotFound, "not_found", what)
}

// storeAway answers that what was asked for cannot be had now.
func storeAway(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "1")
	replyError(w, http.StatusServiceUnavailable, "store_unavailable", "The store could not be asked: "+err.Error())
}

func notServed(w http.ResponseWriter) {
	replyError(w, http.StatusNotImplemented, "not_implemented", "This gateway runs without it.")
}

// readBody reads the body whole. It answers itself and returns false if it
// cannot.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		replyError(w, http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("The body is larger than %d bytes.", tooLarge.Limit))
		return nil, false
	case err != nil:
		badRequest(w, "The body could not be read to its end.")
		return nil, false
	}
	return body, true
}

// readJSON reads the body into v, strictly. It answers itself and returns false
// if it cannot.
func readJSON(w http.ResponseWriter, r *http.Request, most int64, v any) bool {
	body, ok := readBody(w, r, most)
	if !ok {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("there is more after the object")
		}
	}
	switch {
	case err == nil:
		return true
	case errors.Is(err, io.EOF):
		badRequest(w, "The body is empty; a JSON object is wanted.")
	default:
		badRequest(w, "The body is not what is wanted here: %s.", strings.TrimPrefix(err.Error(), "json: "))
	}
	return false
}

// plainErrors gives the mux's own 404 and 405 the shape of all errors.
func plainErrors(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r) // which also sets the path's values
			return
		}
		probe := &statusOnly{header: http.Header{}}
		next.ServeHTTP(probe, r)
		if probe.status == http.StatusMethodNotAllowed {
			allow := probe.header.Get("Allow")
			w.Header().Set("Allow", allow)
			replyError(w, http.StatusMethodNotAllowed, "method_not_allowed", fmt.Sprintf("%s is not possible here, only %s.", r.Method, allow))
			return
		}
		notFound(w, fmt.Sprintf("There is nothing at %s.", r.URL.Path))
	})
}

// statusOnly is a response of which only the head is looked at.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }
