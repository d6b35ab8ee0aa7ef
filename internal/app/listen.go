package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"llmgw/internal/config"
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
	http     *http.Server
	listener net.Listener
}

func (s *server) addr() string { return s.listener.Addr().String() }

// servers are the two planes.
type servers struct{ data, admin server }

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
	if a.servers.data, err = a.open(ctx, data, a.gateway.Handler()); err != nil {
		return err
	}
	if a.servers.admin, err = a.open(ctx, admin, a.adminHandler(c)); err != nil {
		return err
	}
	a.servers.admin.http.ReadTimeout, a.servers.admin.http.WriteTimeout = adminTimeout, adminTimeout
	cert, err := loadCertificate(c.Server.TLS)
	if err != nil {
		return err
	}
	if cert != nil {
		a.certificate.Store(cert)
		a.servers.data.http.TLSConfig = a.tlsConfig()
	}
	return nil
}

func (a *App) open(ctx context.Context, addr string, h http.Handler) (server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return server{}, fmt.Errorf("listen: %w", err)
	}
	a.onClose(func(context.Context) error {
		_ = l.Close() // closed already where it was served
		return nil
	})
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return server{listener: l, http: &http.Server{
		Handler: parting(h), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, Protocols: &protocols,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}}, nil
}

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
	failed := make(chan error, 2)
	for _, s := range []*server{&a.servers.data, &a.servers.admin} {
		go func() { failed <- s.run() }()
	}
	a.log.Info("listening", "data", a.Addr(), "admin", a.AdminAddr(), "config", a.options.ConfigFile)
	var err error
	left := 2
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

// errCut says that the grace was too short for some streams.
var errCut = errors.New("some calls were still running at the end of shutdown_grace and were cut")

func (a *App) stopServing() error {
	c := a.config.Load()
	a.draining.Store(true)
	a.log.Info("stopping", "running", a.gateway.Inflight())
	select {
	case <-time.After(c.Server.DrainDelay):
	case <-a.options.Hurry:
	}
	grace, cancel := context.WithTimeout(context.Background(), c.Server.ShutdownGrace)
	defer cancel()
	go func() {
		select {
		case <-a.options.Hurry:
			cancel()
		case <-grace.Done():
		}
	}()
	var err error
	if a.servers.data.http.Shutdown(grace) != nil {
		err = errCut
		_ = a.servers.data.http.Close() // its calls end now, each with its settlement
	}
	a.waitIdle()
	_ = a.servers.admin.http.Close() // scrapes may be cut
	return err
}

// waitIdle waits until the handlers of cut calls have settled.
func (a *App) waitIdle() {
	end := time.Now().Add(2 * time.Second)
	for a.gateway.Inflight() > 0 && time.Now().Before(end) {
		time.Sleep(5 * time.Millisecond)
	}
}
