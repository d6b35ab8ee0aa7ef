#!/usr/bin/env bash
# Runs each fuzz target of the module for FUZZTIME, a time or a number of runs
# such as 5000x. A package is built once for all its targets, since go test takes
# one target at a time and links the package again for each.
set -euo pipefail
cd "$(dirname "$0")/.."

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
corpus=$(go env GOCACHE)/fuzz/llmgw

found=0
while read -r dir; do
  targets=$(grep -rhoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go 2>/dev/null | sed 's/^func //' | sort -u) || true
  go test -c -fuzz . -o "$built/fuzz.test" "$dir"
  for target in $targets; do
    found=$((found + 1))
    echo "fuzz: $dir $target"
    (cd "$dir" && "$built/fuzz.test" -test.run '^$' -test.fuzz "^${target}\$" \
      -test.fuzztime "${FUZZTIME:-5s}" -test.fuzzcachedir "$corpus/$dir")
  done
done < <(grep -rlE '^func Fuzz' --include='*_test.go' --exclude-dir=e2e --exclude-dir=node_modules . | xargs -r -n1 dirname | sort -u)

if [ "$found" -eq 0 ]; then
  echo "fuzz: no target found: this script is wrong" >&2
  exit 1
fi
echo "fuzz: $found targets"
