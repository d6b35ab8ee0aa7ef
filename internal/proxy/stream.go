package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"llmgw/internal/books"
	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/upstream"
)

// relayed is one answer on its way to the client.
type relayed struct {
	w       http.ResponseWriter
	control *http.ResponseController
	rules   *Rules
	line    *lifeline
	s       *settlement
	resp    *upstream.Response
	rec     *record
	client  context.Context
	streams bool // events: flush each piece, and the last must be a terminal event
	flushes bool
	holds   bool      // a document's start stays here while it may still break
	held    []byte    // that start
	begun   bool      // the header was written
	priced  bool      // and tells what the call costs
	gone    bool      // the client can no longer be written to
	after   int64     // bytes read since it left without all of the answer
	missing int64     // bytes that the document still lacks, or -1 if unknown
	written time.Time // when the write deadline was last set
}

// relay passes the answer on as it comes and settles by what the meter saw. A
// document is settled before its last bytes go out, so that a client's next
// request finds the balance settled. A broken answer ends as a broken
// connection: relay then panics with http.ErrAbortHandler.
func (g *Gateway) relay(w http.ResponseWriter, line *lifeline, s *settlement, resp *upstream.Response, rec *record) {
	a := &relayed{
		w: w, control: http.NewResponseController(w), rules: line.rules, line: line, s: s, resp: resp, rec: rec, client: line.client, missing: -1,
		streams: resp.Meter.Report().Stream,
	}
	a.holds = !a.streams && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json")
	switch {
	case a.streams || len(resp.Prefix) > 0:
		a.writeHead()
		line.due(resp.Meter.Report().Due)
		a.write(resp.Prefix)
	default:
		a.missing = contentLength(resp.Header)
	}
	err := a.copy()
	if err != nil && !a.begun { // no answer has begun: the client can be told
		s.settle(a.unbegun(err))
		g.refuse(w, rec, err)
		return
	}
	a.finish(err)
}

// writeHead sends status and headers, once.
func (a *relayed) writeHead() {
	if a.begun {
		return
	}
	a.begun = true
	h := a.w.Header()
	copyAnswerHeader(h, a.resp.Header, a.rules.Exposure)
	if a.resp.Header["Content-Type"] == nil {
		h["Content-Type"] = nil // or the server would guess one
	}
	if id := h.Get("Request-Id"); id != "" && a.resp.Header.Get("X-Request-Id") == "" {
		h["X-Request-Id"] = []string{id}
	}
	if a.resp.Status >= 400 {
		hint(h, time.Now())
	}
	if a.s.done {
		a.tellCost(h, costHeader)
	}
	a.flushes = a.streams || contentLength(a.resp.Header) < 0
	if a.streams {
		h.Del("Content-Length") // the meter may hide usage
	}
	a.w.WriteHeader(a.resp.Status)
	if a.flushes {
		a.flush()
	}
}

const costHeader = "X-Llmgw-Cost-Usd"

// tellCost writes what the call is charged, in dollars, if its model has prices.
func (a *relayed) tellCost(h http.Header, name string) {
	if p := a.s.plan; p.Model.Prices != nil && !p.Flat {
		h[name] = []string{books.Dollars(p.Model.Cost(p.ByOperation(a.s.ending.Usage))).String()}
		a.priced = true
	}
}

// contentLength is what h says, or -1.
func contentLength(h http.Header) int64 {
	length := h.Get("Content-Length")
	if length == "" { // an error costs more
		return -1
	}
	n, err := strconv.ParseInt(length, 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// The sizes of the buffer that an answer is read into: small while it trickles,
// so that idle streams cost little.
const (
	smallRead = 2 << 10
	largeRead = 32 << 10
)

var largeBuffers = sync.Pool{New: func() any { b := make([]byte, largeRead); return &b }}

// copy reads the answer to its end. It returns nil at a clean end of the
// transfer, and what broke it otherwise.
func (a *relayed) copy() error {
	var buf []byte
	if a.streams {
		buf = make([]byte, smallRead)
	} else {
		large := largeBuffers.Get().(*[]byte)
		defer largeBuffers.Put(large)
		buf = *large
	}
	for {
		n, err := a.resp.Body.Read(buf)
		if n > 0 {
			a.take(buf[:n])
			if n == len(buf) && len(buf) < largeRead {
				buf = make([]byte, 4*len(buf))
			}
			if err == nil {
				err = a.overdrawn(n)
			}
		}
		if err == nil {
			continue
		}
		a.rec.last = time.Now() // until now the provider was waited for
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}

// take shows the next bytes to the meter and writes what it releases.
func (a *relayed) take(p []byte) {
	now := time.Now()
	a.rec.last = now
	out := a.resp.Meter.Feed(p)
	if a.missing >= 0 {
		a.missing -= int64(len(p))
	}
	if a.missing == 0 {
		a.resp.Meter.End() // a document holds nothing back
	}
	var report dialect.Report
	if !a.streams && a.missing <= 0 {
		report = a.resp.Meter.Report()
	}
	if a.streams {
		a.line.due(a.resp.Meter.Due())
	}
	whole := report.Complete || a.missing == 0 && !a.gone && !a.s.plan.Call.Detached
	if whole {
		a.s.settle(a.s.plan.Metered(charge.Completed, a.resp.Status, report))
		a.s.asking.told(a.resp.Status, report)
	}
	a.s.progress(now, a.resp.Meter, a.resp.Status)
	if !whole && a.hold(out) {
		return
	}
	a.release()
	a.write(out)
}

// hold keeps the start of a document that may still break, so that the client
// then gets an error instead of a part. Blanks that come first are a sign of
// life, and not kept.
func (a *relayed) hold(out []byte) bool {
	if !a.holds || len(a.held)+len(out) >= largeRead || len(a.held) == 0 && len(bytes.TrimLeft(out, " \t\r\n")) < len(out) {
		return false
	}
	a.held = append(a.held, out...)
	return true
}

// release writes the header and what was held back.
func (a *relayed) release() {
	a.writeHead()
	held := a.held
	a.holds, a.held = false, nil
	a.write(held)
}

// errDrained ends the reading of an answer whose client left: the rules do not
// drain, or its bound of bytes is reached.
var errDrained = errors.New("proxy: the client left")

// left reports whether the client has left.
func (a *relayed) left() bool { return a.gone || a.client.Err() != nil }

// overdrawn says when to stop reading for a client that left.
func (a *relayed) overdrawn(n int) error {
	if !a.left() {
		return nil
	}
	if a.after == 0 {
		if r := a.resp.Meter.Report(); r.Due || r.Billed {
			return nil // what is read now is the bill
		}
	}
	a.after += int64(n)
	if a.rules.OnClientGone != Drain || a.after > a.rules.DrainBytes {
		return errDrained
	}
	return nil
}

// writeIdle is how long a client may take no byte of its answer.
const writeIdle = 2 * time.Minute

// write passes p on, at once where the answer is a stream.
func (a *relayed) write(p []byte) {
	if len(p) == 0 || a.gone {
		return
	}
	if now := time.Now(); now.Sub(a.written) > writeIdle/8 {
		a.written = now
		_ = a.control.SetWriteDeadline(now.Add(writeIdle)) // not every writer has one
	}
	if _, err := a.w.Write(p); err != nil {
		a.lost()
		return
	}
	if a.flushes {
		a.flush()
	}
}

func (a *relayed) flush() {
	if err := a.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		a.lost()
	}
}

// lost notes that the client cannot be written to.
func (a *relayed) lost() {
	a.gone = true
	a.line.leave()
}

// finish settles what the meter saw and ends the client's answer: cleanly only
// if the provider's ended so.
func (a *relayed) finish(err error) {
	a.release()
	between := a.resp.Meter.Report().Between // what End returns is not sent then
	rest := a.resp.Meter.End()
	report := a.resp.Meter.Report()
	o := a.outcome(err, report)
	e := a.ended(o, report)
	a.rec.answer = report
	switch {
	case err != nil && (o == charge.UpstreamTruncated || o == charge.TimedOut):
		a.rec.cause = causeOf(fault.From(err))
	case report.Due && a.left():
		a.rec.cause = "the client left with the answer, and its usage did not come: reasoning is charged as such calls usually need"
	}
	a.s.gateway.learn(a.s.plan, o, report)
	if !a.chargesAll(o) && goesOn(a.s.plan, a.resp.Status, report) {
		a.s.leaveOpen(report.ID, e)
	}
	a.s.settle(e)
	a.s.asking.told(a.resp.Status, report)
	if a.gone || o == charge.ClientGone || o == charge.Shutdown {
		panic(http.ErrAbortHandler)
	}
	if err != nil && o != charge.Completed || o == charge.UpstreamTruncated {
		if a.streams && between && report.Failure == nil { // the provider's own tells more
			a.write(a.s.plan.dialect.ErrorEvent(brokenOff(o), a.rec.id))
		}
		panic(http.ErrAbortHandler)
	}
	a.write(rest)
	if sent := a.resp.Trailer(); len(sent) > 0 {
		trailer := http.Header{}
		copyAnswerHeader(trailer, sent, a.rules.Exposure)
		for name, values := range trailer {
			a.w.Header()[http.TrailerPrefix+name] = values
		}
	}
	if !a.priced {
		a.tellCost(a.w.Header(), http.TrailerPrefix+costHeader)
	}
}
