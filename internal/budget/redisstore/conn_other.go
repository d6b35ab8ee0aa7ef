//go:build !unix

package redisstore

import "net"

// readable reports whether a byte lies in c's socket: here it is not known.
func readable(*net.TCPConn) bool { return false }
