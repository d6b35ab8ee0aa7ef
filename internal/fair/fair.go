// Package fair divides what one process has, memory and processors, between
// teams, so that none can take it all. It knows nothing of requests.
//
// pool.go is a number of bytes, gate.go a number of processors.
package fair
