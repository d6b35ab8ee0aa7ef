package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"llmgw/internal/config"
	"llmgw/internal/fault"
	"llmgw/internal/proxy"
)

// headerTimeout bounds how long a client may take to send its header,
// idleTimeout how long a connection may lie idle, restTimeout how long the rest
// of a body is awaited that nobody reads, and takeTimeout how long a client may
// take for the last bytes of an answer. adminTimeout bounds each direction of a
// whole exchange on the admin plane.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	restTimeout   = 2 * time.Second
	takeTimeout   = 2 * time.Minute
	adminTimeout  = time.Minute
	maxHeader     = 64 << 10
)

// server is one listener and what serves it.
type server struct {
	http        *http.Server
	listener    net.Listener
	certificate atomic.Pointer[tls.Certificate] // nil: plain HTTP
}

func (s *server) addr() string { return s.listener.Addr().String() }

// servers are the two planes.
type servers struct {
	data, admin *server
	socket      *server // the data plane's on a unix socket; nil: there is none
}

// all are those that there are.
func (s *servers) all() []*server {
	all := []*server{s.data, s.admin}
	if s.socket != nil {
		all = append(all, s.socket)
	}
	return all
}

// listen takes both addresses, so that a port in use is told at once.
func (a *App) listen(ctx context.Context, c *config.Config) error {
	data, admin := c.Server.Listen, c.Server.AdminListen
	if a.options.Listen != "" {
		data = a.options.Listen
	}
	if a.options.AdminListen != "" {
		admin = a.options.AdminListen
	}
	var err error
	if a.servers.data, err = a.open(ctx, "tcp", data, c.Server.TLS, framed(a.gateway.Handler(), a.refuseFraming)); err != nil {
		return err
	}
	if a.servers.admin, err = a.open(ctx, "tcp", admin, c.Server.AdminTLS, framed(a.adminHandler(c), refuseAdminFraming)); err != nil {
		return err
	}
	if err = a.openSocket(ctx, c.Server.Socket); err != nil {
		return err
	}
	calls, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	a.cut = cut
	a.servers.data.http.BaseContext = func(net.Listener) context.Context { return calls }
	if a.servers.socket != nil {
		a.servers.socket.http.BaseContext = a.servers.data.http.BaseContext
	}
	a.servers.admin.http.ReadTimeout, a.servers.admin.http.WriteTimeout = adminTimeout, adminTimeout
	return nil
}

// openSocket listens at a unix socket, if there is a path.
func (a *App) openSocket(ctx context.Context, path string) (err error) {
	if path == "" {
		return nil
	}
	if err := forsaken(ctx, path); err != nil {
		return err
	}
	a.servers.socket, err = a.open(ctx, "unix", path, config.TLS{}, framed(a.gateway.Handler(), a.refuseFraming))
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

// forsaken removes the socket that a gateway left behind which died. It returns an
// error if somebody listens there.
func forsaken(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return nil //nolint:nilerr // listening says what is wrong
	}
	var d net.Dialer
	if c, err := d.DialContext(ctx, "unix", path); err == nil {
		_ = c.Close() // nothing was sent
		return fmt.Errorf("listen: somebody listens at %s already", path)
	}
	return os.Remove(path)
}

// open listens at addr, for TLS if t names a certificate.
func (a *App) open(ctx context.Context, network, addr string, t config.TLS, h http.Handler) (*server, error) {
	cert, err := loadCertificate(t)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	a.onClose(func(context.Context) error {
		_ = l.Close() // closed already where it was served
		return nil
	})
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &server{listener: newDoor(l, a.mostConnections, a.turnedAway), http: &http.Server{
		Handler: parting(h), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, Protocols: &protocols,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug), ConnContext: follow,
	}}
	if cert != nil {
		s.certificate.Store(cert)
		s.http.TLSConfig = s.tlsConfig()
	}
	return s, nil
}

// refuseFraming answers a request whose head could be read in two ways.
func (a *App) refuseFraming(w http.ResponseWriter, r *http.Request) {
	a.gateway.Refuse(w, r, fault.Invalid("Transfer-Encoding", errFraming))
}

func refuseAdminFraming(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, errFraming, http.StatusBadRequest)
}

const errFraming = "The request's length is ambiguous: send either Content-Length or Transfer-Encoding: chunked, and no folded header."

// parting serves h and bounds what the server does after it: taking in what is
// left of a body that was refused unread, without which it does not answer, and
// writing the end of the answer. Nobody could hold a connection, or a shutdown,
// by sending half a request.
func parting(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			conn, now := http.NewResponseController(w), time.Now()
			_ = conn.SetReadDeadline(now.Add(restTimeout)) // not every writer has one
			_ = conn.SetWriteDeadline(now.Add(takeTimeout))
		}()
		h.ServeHTTP(w, r)
	})
}

// serve runs both planes until ctx ends or one fails, then stops the data plane
// first: /readyz fails at once, after drain_delay the listener closes, and what
// runs may end within shutdown_grace. Who hurries shortens both.
func (a *App) serve(ctx context.Context) error {
	all := a.servers.all()
	failed := make(chan error, len(all))
	for _, s := range all {
		go func() { failed <- s.run() }()
	}
	a.log.Info("listening", "data", a.Addr(), "admin", a.AdminAddr(), "config", a.options.ConfigFile)
	var err error
	left := len(all)
	select {
	case <-ctx.Done():
	case err = <-failed:
		left--
	}
	err = errors.Join(err, a.stopServing())
	for range left {
		err = errors.Join(err, <-failed)
	}
	return err
}

// run serves until the server is shut down; that is no error.
func (s *server) run() error {
	var err error
	if s.http.TLSConfig != nil {
		err = s.http.ServeTLS(s.listener, "", "")
	} else {
		err = s.http.Serve(s.listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", s.addr(), err)
}

// longestTurn bounds how long those who wait may still have their turn once the
// listener has closed. It is half of the grace if that is less: what has its turn
// then wants time to be answered.
const longestTurn = 5 * time.Second

// stopServing ends the data plane, then the admin plane. The error says how many
// calls had to be cut.
func (a *App) stopServing() error {
	c := a.config.Load()
	a.draining.Store(true)
	a.log.Info("stopping", "running", a.gateway.Inflight(), "waiting", a.gateway.Waiting())
	select {
	case <-time.After(c.Server.DrainDelay):
	case <-a.options.Hurry:
	}
	grace, cancel := context.WithTimeout(context.Background(), c.Server.ShutdownGrace)
	defer cancel()
	a.graceEnds, _ = grace.Deadline()
	hurried := a.hurries(cancel, grace)
	a.gateway.StopWaiting(min(c.Server.ShutdownGrace/2, longestTurn))
	var err error
	if a.shutdown(grace) != nil {
		err = a.cutCalls(hurried)
	}
	_ = a.servers.admin.http.Close() // scrapes may be cut
	return err
}

// shutdown lets the calls of the data plane end, on both of its listeners.
func (a *App) shutdown(grace context.Context) error {
	if a.servers.socket == nil {
		return a.servers.data.http.Shutdown(grace)
	}
	socket := make(chan error, 1)
	go func() { socket <- a.servers.socket.http.Shutdown(grace) }()
	return errors.Join(a.servers.data.http.Shutdown(grace), <-socket)
}

// hurries ends the grace with the second signal, and reports whether that has
// come.
func (a *App) hurries(end context.CancelFunc, grace context.Context) func() bool {
	hurried := make(chan struct{})
	go func() {
		select {
		case <-a.options.Hurry:
			close(hurried)
			a.gateway.StopWaiting(0)
			end()
		case <-grace.Done():
		}
	}()
	return func() bool {
		select {
		case <-hurried:
			return true
		default:
			return false
		}
	}
}

// cutCalls ends the calls that are still running, each with its settlement. The
// error says how many there were, and why; nil if there were none.
func (a *App) cutCalls(hurried func() bool) error {
	why := "at the end of shutdown_grace"
	if hurried() {
		a.graceEnds = time.Now()
		why = "at a second signal"
	}
	if a.room.Len() > 0 { // who waits is answered, and not cut
		a.gateway.StopWaiting(0)
		wait(settleTime, func() bool { return a.room.Len() == 0 })
		wait(settleTime/10, a.idle)
	}
	a.cut(proxy.ErrShutdown)
	wait(settleTime, a.idle)
	if a.servers.socket != nil {
		_ = a.servers.socket.http.Close()
	}
	_ = a.servers.data.http.Close() // which ends reading and writing, too
	wait(4*settleTime, a.idle)
	n := a.gateway.Cut() + a.gateway.Inflight()
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d calls were still running %s and were cut", n, why)
}

// settleTime is how long calls that were cut may take to settle.
const settleTime = 500 * time.Millisecond

// idle reports whether all calls have settled.
func (a *App) idle() bool { return a.gateway.Inflight() == 0 }

// wait waits until done, for at most d.
func wait(d time.Duration, done func() bool) {
	for end := time.Now().Add(d); !done() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
}
