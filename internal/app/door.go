package app

import (
	"net"
	"net/netip"
	"sync"

	"llmgw/internal/tenant"
)

// door is a plane's listener. It closes at once what would be more connections
// of one address than most allows, and follows the framing of the others.
type door struct {
	net.Listener
	most   func(netip.Addr) int // 0: no bound
	turned func(netip.Addr)     // called for each connection that is closed

	mu   sync.Mutex
	open map[netip.Addr]int
}

func newDoor(l net.Listener, most func(netip.Addr) int, turned func(netip.Addr)) *door {
	return &door{Listener: l, most: most, turned: turned, open: map[netip.Addr]int{}}
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := tenant.Proxies(nil).ClientIP(c.RemoteAddr().String(), nil)
		if d.enter(from) {
			return &followed{Conn: c, leave: sync.OnceFunc(func() { d.leave(from) })}, nil
		}
		_ = c.Close() // nothing was read or written
		d.turned(from)
	}
}

// enter counts a connection of an address, unless it has as many as it may.
func (d *door) enter(from netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if most := d.most(from); most > 0 && d.open[from] >= most {
		return false
	}
	d.open[from]++
	return true
}

func (d *door) leave(from netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[from]--; d.open[from] == 0 {
		delete(d.open, from)
	}
}

// mostConnections is how many connections an address may have: any number if it
// is a proxy that is trusted, behind which there are many clients.
func (a *App) mostConnections(from netip.Addr) int {
	s := a.config.Load().Server
	for _, network := range s.TrustedProxies {
		if network.Contains(from) {
			return 0
		}
	}
	return s.MaxConnections
}

// turnedAway counts a connection that was one too many of its address.
func (a *App) turnedAway(from netip.Addr) {
	a.metrics.ConnectionRefused()
	if since, now := a.crowded.Allow(); now {
		a.log.Warn("an address has as many connections as it may have: new ones are closed", "address", from.String(), "closed", since)
	}
}
