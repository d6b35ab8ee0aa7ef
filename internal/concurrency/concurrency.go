// Package concurrency divides what one process has, memory and processors, between
// teams, so that none can take it all. It knows nothing of requests.
//
// pool.go is the ceiling on bytes, gate.go the semaphore for processors.
package concurrency
