package watch

import (
	"encoding/base64"

	"llmgw/internal/jsonscan"
)

// embedded reads base64 text that holds another document.
type embedded struct {
	push   jsonscan.Push
	inside bool
	broken bool
	four   [4]byte // characters that do not make bytes yet
	n      int
}

// embed takes the next piece of an Embedded text; nil ends it.
func (r *reading) embed(piece []byte) {
	if r.inner == nil {
		r.inner = &embedded{}
	}
	e := r.inner
	if !e.inside {
		e.push.Start(r.api.Inner.Event, r)
		e.inside, e.broken, e.n = true, false, 0
	}
	if piece == nil {
		e.push.End()
		e.inside = false
		return
	}
	for _, c := range piece {
		e.four[e.n] = c
		if e.n++; e.n < len(e.four) || e.broken {
			e.n %= len(e.four)
			continue
		}
		e.n = 0
		var raw [3]byte
		n, err := base64.StdEncoding.Decode(raw[:], e.four[:])
		e.broken = err != nil
		e.push.Write(raw[:n])
	}
}
