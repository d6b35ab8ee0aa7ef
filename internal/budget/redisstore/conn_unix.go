//go:build unix

package redisstore

import (
	"net"
	"syscall"
)

// glance is the time for a last look into the socket: readable has looked.
const glance = 0

// readable reports whether a byte lies in c's socket. It does not block.
func readable(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	_ = raw.Control(func(fd uintptr) { // of a closed one n stays 0
		var one [1]byte
		n, _, _ = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return n > 0
}
