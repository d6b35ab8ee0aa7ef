package fakellm

import (
	"net/http"
	"strconv"
	"sync"
)

// shelf keeps the last responses, for those who come back for them. A response
// that was made in the background is running until it was asked for twice.
type shelf struct {
	mu    sync.Mutex
	order []string
	by    map[string]*kept
}

// maxKept bounds a shelf.
const maxKept = 1000

type kept struct {
	running, final, cancelled []byte
	state                     int // times it is still to be shown running; -1: cancelled
}

func newShelf() *shelf { return &shelf{by: map[string]*kept{}} }

func (s *shelf) put(id string, k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[id] = k
	s.order = append(s.order, id)
	if len(s.order) > maxKept {
		delete(s.by, s.order[0])
		s.order = s.order[1:]
	}
}

// take shows, ends or removes the response id: method GET, POST or DELETE. It
// returns nil if there is none.
func (s *shelf) take(id, method string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.by[id]
	if k == nil {
		return nil
	}
	switch {
	case method == http.MethodDelete:
		delete(s.by, id)
		return append(appendString([]byte(`{"id":`), id), `,"object":"response.deleted","deleted":true}`...)
	case method == http.MethodPost && k.state > 0:
		k.state = -1
		return k.cancelled
	case k.state < 0:
		return k.cancelled
	case k.state > 0:
		k.state--
		return k.running
	}
	return k.final
}

// keptShape is a response that is kept.
type keptShape struct {
	responsesShape
	shelf *shelf
}

func (s *keptShape) document(b []byte, a *answer) []byte {
	k := &kept{final: s.responsesShape.document(nil, a)}
	s.shelf.put("resp_sim"+strconv.FormatInt(a.id, 10), k)
	if !a.background {
		return append(b, k.final...)
	}
	k.state = 1
	k.running = s.response(nil, a, "in_progress")
	k.cancelled = s.response(nil, a, "cancelled")
	return s.response(b, a, "queued")
}

func (s *keptShape) tail(f *framing, a *answer) {
	s.responsesShape.tail(f, a)
	s.shelf.put("resp_sim"+strconv.FormatInt(a.id, 10), &kept{final: s.responsesShape.document(nil, a)})
}

// shelfShape is what is asked of a kept response.
type shelfShape struct {
	shelf   *shelf
	missing bool
}

func (s *shelfShape) document(b []byte, a *answer) []byte {
	found := s.shelf.take(a.name, a.method)
	if found == nil {
		s.missing = true
		return openaiFailure(b, fault{status: http.StatusNotFound, message: "Response with id '" + a.name + "' not found."})
	}
	return append(b, found...)
}

func (s *shelfShape) status() int {
	if s.missing {
		return http.StatusNotFound
	}
	return http.StatusOK
}
