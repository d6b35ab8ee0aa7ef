#!/usr/bin/env bash
# Runs the official clients, in Go and in Node, against the built gateway.
# LLMGW_BINARY names it; without that it is built. LLMGW_E2E_DIRECT=1 runs them
# against the simulated provider instead, to see that it speaks as the real ones.
set -euo pipefail
cd "$(dirname "$0")"

npm ci --no-fund --no-audit --loglevel=error
# Agents wait between their own retries: several run at once.
exec go test -count=1 -parallel 6 "$@" ./...
