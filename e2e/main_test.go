// Package e2e runs the official clients of every API against the built gateway,
// with the simulated provider behind it. Nothing here imports
// the gateway: it is seen as users see it.
//
// main_test.go starts and stops the programs, config_test.go configures them,
// signed_test.go checks what it signs for AWS, node_test.go runs the suites of node/, and the other files are the suites of
// the Go clients.
package e2e

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// site is where the clients go.
type site struct {
	url      string // the gateway's, without /v1
	provider string // the simulated provider's
	direct   bool   // no gateway in between
}

// here is set once, before any test runs.
var here site

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("e2e: not run with -short: it builds and starts programs")
		return
	}
	os.Exit(run(m))
}

// run starts the programs, runs the tests, and stops what it started.
func run(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "llmgw-e2e-")
	if err != nil {
		return complain(err)
	}
	defer os.RemoveAll(dir)
	here.direct = os.Getenv("LLMGW_E2E_DIRECT") != ""

	provider, err := startProvider(dir)
	if err != nil {
		return complain(err)
	}
	defer provider.stop(&code)
	if here.direct {
		here.url = here.provider
		return m.Run()
	}
	aws := httptest.NewServer(signedOnly(here.provider))
	defer aws.Close()
	gateway, err := startGateway(dir, aws.URL)
	if err != nil {
		return complain(err)
	}
	defer gateway.stop(&code)
	return m.Run()
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}

// startProvider builds the simulated provider and starts it on a free port.
func startProvider(dir string) (*program, error) {
	binary, err := build(dir, "./bench/provider")
	if err != nil {
		return nil, err
	}
	args := []string{"-record", "400"}
	for _, call := range calls {
		args = append(args, "-call", call)
	}
	p := &program{name: "provider", cmd: exec.Command(binary, args...)}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.start(dir); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("provider: it did not tell its address: %w", err)
	}
	here.provider = strings.TrimSpace(line)
	return p, nil
}

// startGateway starts the gateway on free ports, and waits until it is ready.
func startGateway(dir, signed string) (*program, error) {
	binary := os.Getenv("LLMGW_BINARY")
	if binary == "" {
		var err error
		if binary, err = build(dir, "./cmd/llmgw"); err != nil {
			return nil, err
		}
	}
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddress()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "llmgw.yaml")
	if err := os.WriteFile(file, []byte(configuration(listen, admin, here.provider, signed)), 0o600); err != nil {
		return nil, err
	}
	p := &program{name: "gateway", cmd: exec.Command(binary, "serve", "--config", file)}
	if err := p.start(dir); err != nil {
		return nil, err
	}
	here.url = "http://" + listen
	return p, p.ready("http://" + admin + "/readyz")
}

// build builds a command of the gateway's module.
func build(dir, pkg string) (string, error) {
	binary := filepath.Join(dir, filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-o", binary, pkg)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return binary, nil
}

// freeAddress is an address that nobody listens on now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// program is a process that was started here.
type program struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	done chan error
}

// start starts p, with its log in dir.
func (p *program) start(dir string) error {
	var err error
	if p.log, err = os.Create(filepath.Join(dir, p.name+".log")); err != nil {
		return err
	}
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.done = make(chan error, 1)
	go func() { p.done <- p.cmd.Wait() }()
	return nil
}

// ready waits until url answers 200.
func (p *program) ready(url string) error {
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if resp, err := http.Get(url); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-p.done:
			p.done <- err
			return fmt.Errorf("%s ended: %w\n%s", p.name, errors.Join(err), p.tail())
		case <-deadline:
			return fmt.Errorf("%s: not ready in time\n%s", p.name, p.tail())
		case <-tick.C:
		}
	}
}

// stop ends p with SIGTERM. Unless that is a clean end, code becomes 1.
func (p *program) stop(code *int) {
	defer p.log.Close()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		*code = complain(fmt.Errorf("stop %s: %w", p.name, err))
	}
	select {
	case err := <-p.done:
		if err != nil {
			*code = complain(fmt.Errorf("%s ended: %w\n%s", p.name, err, p.tail()))
		}
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill() // it may have ended just now
		*code = complain(fmt.Errorf("%s did not stop\n%s", p.name, p.tail()))
	}
}

// tail is the end of p's log.
func (p *program) tail() string {
	f, err := os.Open(p.log.Name())
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}
