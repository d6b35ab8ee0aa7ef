// Command reverseproxy is the least that a gateway on gin could do: the
// standard library's reverse proxy and nothing else. It is what the gateway is
// measured against.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"time"

	"github.com/gin-gonic/gin"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "reverseproxy:", err)
		os.Exit(1)
	}
}

// allocated tells what this process has allocated, as the Prometheus client
// for Go names it.
func allocated(c *gin.Context) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	c.String(http.StatusOK, "go_memstats_mallocs_total %d\ngo_memstats_alloc_bytes_total %d\n", m.Mallocs, m.TotalAlloc)
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	to := flag.String("to", "", "base URL to pass requests on to")
	flag.Parse()
	target, err := url.Parse(*to)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 20_000
	transport.DisableCompression = true
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
	}
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.POST("/v1/*path", gin.WrapH(proxy))
	engine.GET("/metrics", allocated)

	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	server := &http.Server{Handler: engine, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(l)
}
