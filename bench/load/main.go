// Command load puts load on an HTTP server and tells on stdout, as JSON, how
// it did. It is made to cost little itself: each connection is one goroutine
// that writes one prepared request and reads past the answer.
//
// main.go reads the flags, conn.go is the HTTP/1.1 client, loop.go the ways to
// load, memory.go a neighbour that is no load, result.go what is told.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"time"
)

// plan is what to do.
type plan struct {
	target      *url.URL
	key         string
	body        []byte
	mode        string
	connections int
	rate        float64 // requests per second, of mode open
	duration    time.Duration
	warmup      time.Duration
	pause       time.Duration // between the requests of a connection, of mode closed
	keys        int           // keys that the connections share among them; 0: one
	users       int64         // users that the requests name in turn; 0: none is named
	named       atomic.Int64  // requests that named a user
	every       time.Duration // between the pieces of an answer, as the provider sends them; 0: not known
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run() error {
	p, err := parse()
	if err != nil {
		return err
	}
	var r result
	switch p.mode {
	case "closed":
		r, err = p.closed()
	case "open":
		r, err = p.open()
	case "idle":
		return p.idle()
	case "memory":
		return neighbour()
	default:
		err = fmt.Errorf("-mode %q is not closed, open, idle or memory", p.mode)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func parse() (*plan, error) {
	p := &plan{}
	target := flag.String("url", "", "where to POST")
	model := flag.String("model", "gpt-4o", "model to ask for")
	size := flag.Int("size", 1000, "bytes of the request's body, about")
	stream := flag.Bool("stream", false, "ask for a stream")
	flag.StringVar(&p.key, "key", "sk-llmgw-bench", "API key")
	flag.StringVar(&p.mode, "mode", "closed", "closed: each connection asks again when it has its answer; open: -rate requests per second, whatever comes back; idle: hold -connections streams open until stdin ends; memory: no load, but stream through memory until stdin ends")
	flag.IntVar(&p.connections, "connections", 64, "connections; of mode open the most that are used")
	flag.Float64Var(&p.rate, "rate", 1000, "requests per second of mode open")
	flag.DurationVar(&p.duration, "duration", 5*time.Second, "how long to measure")
	flag.DurationVar(&p.warmup, "warmup", 500*time.Millisecond, "how long to load before that")
	flag.DurationVar(&p.pause, "pause", 0, "time between an answer and the next request, of mode closed")
	flag.IntVar(&p.keys, "keys", 0, "keys that the connections share: -key followed by -00, -01 and so on")
	flag.Int64Var(&p.users, "users", 0, "users that the requests name in turn, in X-LLMGW-User")
	flag.DurationVar(&p.every, "every", 0, "pace of a stream's pieces: the answer tells how late they come, beside the first")
	flag.Parse()
	var err error
	if p.target, err = url.Parse(*target); err != nil || p.target.Host == "" && p.mode != "memory" {
		return nil, fmt.Errorf("-url %q is no URL", *target)
	}
	p.body = body(*model, *size, *stream || p.mode == "idle")
	return p, nil
}
