package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// target is one way to the provider.
type target struct {
	name    string
	url     string
	metrics string // where it tells what it allocated; empty: it does not
	pid     int    // 0: nothing in between
}

// bench is a machine set up for measuring.
type bench struct {
	options
	dir     string
	targets []target
	redis   string // address
	started []*exec.Cmd
	pin     bool
}

// start builds and starts everything. What it started is stopped if it fails.
func start(ctx context.Context, o options) (b *bench, err error) {
	b = &bench{options: o, pin: runtime.NumCPU() > 1}
	if _, err := exec.LookPath("taskset"); err != nil {
		b.pin = false
	}
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	if b.dir, err = os.MkdirTemp("", "llmgw-bench-"); err != nil {
		return b, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", b.dir+"/", "./bench/provider", "./bench/load", "./bench/reverseproxy")
	if out, err := build.CombinedOutput(); err != nil {
		return b, fmt.Errorf("build (run this in the repository's root): %w\n%s", err, out)
	}
	provider, _, err := b.announced(others, "provider", "-record", "-1", "-script", "sim-in250-size1k")
	if err != nil {
		return b, err
	}
	b.targets = append(b.targets, target{name: "no proxy", url: provider})
	proxy, pid, err := b.announced(proxies, "reverseproxy", "-to", provider)
	if err != nil {
		return b, err
	}
	b.targets = append(b.targets, target{name: "gin + ReverseProxy", url: proxy, metrics: proxy + "/metrics", pid: pid})
	if err := b.nginx(provider); err != nil {
		return b, err
	}
	return b, b.gatewayAndStore()
}

// place says which core a process is pinned to, where there are two: what is
// measured has one for itself.
type place string

const (
	proxies place = "0"
	others  place = "1"
)

// command is a command pinned to its place.
func (b *bench) command(at place, name string, args ...string) *exec.Cmd {
	if b.pin {
		name, args = "taskset", append([]string{"-c", string(at), name}, args...)
	}
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Dir = b.dir
	return cmd
}

// launch starts a server that runs until stop, with its log in b.dir.
func (b *bench) launch(cmd *exec.Cmd, log string) error {
	f, err := os.Create(filepath.Join(b.dir, log+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // the process has its own
	cmd.Stderr = f
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", log, err)
	}
	b.started = append(b.started, cmd)
	return nil
}

// announced starts one of our own commands, which tells its URL on stdout.
func (b *bench) announced(at place, name string, args ...string) (url string, pid int, err error) {
	cmd := b.command(at, filepath.Join(b.dir, name), args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", 0, err
	}
	if err := b.launch(cmd, name); err != nil {
		return "", 0, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", 0, fmt.Errorf("%s did not tell its address: %w", name, err)
	}
	return strings.TrimSpace(line), cmd.Process.Pid, nil
}

// nginx starts nginx, where it is installed.
func (b *bench) nginx(provider string) error {
	if _, err := exec.LookPath("nginx"); err != nil {
		fmt.Fprintln(os.Stderr, "nginx is not installed: it is left out")
		return nil //nolint:nilerr // it is welcome, not needed
	}
	listen, err := freeAddress()
	if err != nil {
		return err
	}
	file := filepath.Join(b.dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(nginxConfig(listen, strings.TrimPrefix(provider, "http://"))), 0o600); err != nil {
		return err
	}
	cmd := b.command(proxies, "nginx", "-p", b.dir, "-c", file)
	if err := b.launch(cmd, "nginx"); err != nil {
		return err
	}
	b.targets = append(b.targets, target{name: "nginx", url: "http://" + listen, pid: cmd.Process.Pid})
	return await(listen)
}

// gatewayAndStore starts Redis and the gateway.
func (b *bench) gatewayAndStore() error {
	if b.gateway == "" {
		return nil
	}
	var err error
	if b.gateway, err = filepath.Abs(b.gateway); err != nil {
		return err
	}
	if b.redis, err = freeAddress(); err != nil {
		return err
	}
	_, port, _ := strings.Cut(b.redis, ":")
	if err := b.launch(b.command(others, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", b.dir), "redis"); err != nil {
		return err
	}
	if err := await(b.redis); err != nil {
		return err
	}
	t, err := b.startGateway(variant{name: "llmgw", leases: "auto"})
	b.targets = append(b.targets, t)
	return err
}

// startGateway starts a gateway beside those that run.
func (b *bench) startGateway(v variant) (target, error) {
	listen, err := freeAddress()
	if err != nil {
		return target{}, err
	}
	admin, err := freeAddress()
	if err != nil {
		return target{}, err
	}
	name := strings.ReplaceAll(v.name, " ", "-")
	file := filepath.Join(b.dir, name+".yaml")
	if err := os.WriteFile(file, []byte(gatewayConfig(b.store, b.redis, b.targets[0].url, v)), 0o600); err != nil {
		return target{}, err
	}
	cmd := b.command(proxies, b.gateway, "serve", "--config", file, "--listen", listen, "--admin-listen", admin)
	if err := b.launch(cmd, name); err != nil {
		return target{}, err
	}
	t := target{name: v.name, url: "http://" + listen, metrics: "http://" + admin + "/metrics", pid: cmd.Process.Pid}
	return t, b.ready("http://"+admin+"/readyz", name)
}

// ready waits until the gateway says it is.
func (b *bench) ready(url, name string) error {
	for range 10_000 {
		if resp, err := http.Get(url); err == nil {
			_ = resp.Body.Close() // only the status counts
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(time.Millisecond)
	}
	log, err := os.ReadFile(filepath.Join(b.dir, name+".log"))
	if err != nil {
		return err
	}
	return fmt.Errorf("the gateway is not ready:\n%s", log)
}

// stop ends what was started, the last first, and removes the directory.
func (b *bench) stop() {
	for len(b.started) > 0 {
		b.stopLast()
	}
	os.RemoveAll(b.dir) //nolint:errcheck // a temporary directory
}

// stopLast ends what was started last.
func (b *bench) stopLast() {
	last := len(b.started) - 1
	cmd := b.started[last]
	b.started = b.started[:last]
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	timer := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait() // ended by our signal
	timer.Stop()
}

// await waits until somebody listens on address.
func await(address string) error {
	var err error
	for range 200 {
		var c net.Conn
		if c, err = net.Dial("tcp", address); err == nil {
			return c.Close()
		}
		time.Sleep(25 * time.Millisecond)
	}
	return err
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// drain reads what is left of a pipe.
func drain(r io.Reader) { _, _ = io.Copy(io.Discard, r) } // its writer may be gone
