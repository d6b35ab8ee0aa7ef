package main

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// benchKey is the key that the load is sent with.
const benchKey = "sk-llmgw-bench"

// benchTeams is how many teams there are besides the first.
const benchTeams = 64

// variant is how one gateway differs from another.
type variant struct {
	name   string
	leases string // auto or off
	users  bool   // limit each user
}

// gatewayConfig makes every request draw on three limits and a slot: tokens of
// the gateway, tokens and requests of the team, concurrency of the team. They
// are wide enough never to refuse.
//
// The load may also come from benchTeams teams, each with limits of its own,
// and leases may be off. With users, each user has a limit as well.
func gatewayConfig(store, redis, provider string, v variant) string {
	var more strings.Builder
	if v.users {
		more.WriteString("      - {name: user-tpm, scope: user, unit: tokens, amount: 10M, per: minute}\n")
	}
	fmt.Fprintf(&more, "    keys:\n      - {id: bench, sha256: %x}\n", sha256.Sum256([]byte(benchKey)))
	for i := range benchTeams {
		fmt.Fprintf(&more, `  - name: bench-%02[1]d
    limits:
      - {name: tpm, unit: tokens, amount: 10000M, per: minute}
      - {name: rpm, unit: requests, amount: 100M, per: minute}
      - {name: slots, unit: concurrency, amount: 100k}
    keys:
      - {id: bench-%02[1]d, sha256: %[2]x}
`, i, sha256.Sum256(fmt.Appendf(nil, "%s-%02d", benchKey, i)))
	}
	return fmt.Sprintf(`
store:
  kind: %s
  leases: %s
  redis: {addrs: [%q], timeout: 1s}
providers:
  - {name: sim, dialect: openai, base_url: "%s/v1", api_keys: [provider-key]}
models:
  - {name: "*", targets: [{provider: sim}]}
limits:
  - {name: all-tpm, unit: tokens, amount: 10000M, per: minute}
teams:
  - name: bench
    limits:
      - {name: tpm, unit: tokens, amount: 10000M, per: minute}
      - {name: rpm, unit: requests, amount: 100M, per: minute}
      - {name: slots, unit: concurrency, amount: 100k}
%s`, store, v.leases, redis, provider, more.String())
}

// nginxConfig makes nginx a reverse proxy with one worker, as the others have
// one core.
func nginxConfig(listen, provider string) string {
	return fmt.Sprintf(`
worker_processes 1;
worker_rlimit_nofile 65536;
daemon off;
pid nginx.pid;
error_log stderr error;
events { worker_connections 50000; }
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  client_max_body_size 64m;
  client_body_buffer_size 1m;
  keepalive_requests 1000000000;
  keepalive_timeout 1h;
  upstream provider { server %s; keepalive 1024; keepalive_requests 1000000000; keepalive_timeout 1h; }
  server {
    listen %s backlog=4096;
    location / {
      proxy_pass http://provider;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 1h;
    }
  }
}
`, provider, listen)
}
