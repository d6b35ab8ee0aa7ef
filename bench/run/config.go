package main

import (
	"crypto/sha256"
	"fmt"
)

// benchKey is the key that the load is sent with.
const benchKey = "sk-llmgw-bench"

// gatewayConfig makes every request draw on three limits and a slot: tokens of
// the gateway, tokens and requests of the team, concurrency of the team. They
// are wide enough never to refuse.
func gatewayConfig(store, redis, provider string) string {
	return fmt.Sprintf(`
store:
  kind: %s
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
    keys:
      - {id: bench, sha256: %x}
`, store, redis, provider, sha256.Sum256([]byte(benchKey)))
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
