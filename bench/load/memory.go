package main

import (
	"io"
	"os"
)

// neighbour streams through memory, as another program on a busy host does,
// until stdin ends: whoever shares the caches with it finds them cold.
func neighbour() error {
	const large = 256 << 20 // bytes; no cache holds as much
	from, to := make([]byte, large), make([]byte, large)
	for i := range from {
		from[i] = byte(i)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- err
	}()
	for {
		select {
		case err := <-ended:
			return err
		default:
			copy(to, from)
		}
	}
}
