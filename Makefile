# Two commands on a fresh machine: `make run` and `make test`.

GO      ?= go
BIN     := bin/llmgw
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT  := $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.release=$(VERSION) -X main.commit=$(COMMIT)
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
FUZZTIME ?= 5s

.PHONY: help
help: ## show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

.PHONY: run
run: build ## run the gateway on its embedded default: no Redis, no key, no network
	@$(BIN) serve

.PHONY: build
build: ## build bin/llmgw
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/llmgw

# Recordings that are not part of the repository, where they lie beside it.
export LLMGW_SHARED ?= $(wildcard $(abspath ../shared))
UNITS = $$($(GO) list ./... | grep -v /internal/blackbox)
# Packages that share something among goroutines: nothing can race in the others.
RACED = $$(grep -rlE --include='*.go' '"sync|go func|\.Parallel\(' cmd internal bench | xargs -n1 dirname | sort -u | grep -v internal/blackbox | sed 's|^|./|')

# SQLite is C translated to Go, and fifty times as slow when it is watched.
UNRACED = -gcflags='modernc.org/...=-race=false'

.PHONY: test
test: deps build ## run every test: units, real Redis, real clients, the binary under fire
	@failed=; export LLMGW_BINARY=$(CURDIR)/$(BIN); \
	$(GO) test $(UNITS) || failed="$$failed units"; \
	$(GO) test -parallel 4 ./internal/blackbox || failed="$$failed blackbox"; \
	(cd e2e && ./run.sh) || failed="$$failed e2e"; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

.PHONY: unit
unit: ## run the tests that need nothing but Go, in less than a minute
	LLMGW_UNIT=1 $(GO) test -short $(UNITS)

.PHONY: deps
deps: ## bring what the tests need: redis-server, promtool, node (Debian's packages)
	@scripts/deps.sh

.PHONY: race
race: deps ## run the tests under the race detector
	$(GO) test -race -short $(UNRACED) $(RACED)
	$(GO) test -race -short -run 'TheBooks|TestTwo|TestA[0-9]|TestD[0-9]|TestF[0-9]|TestH[0-9]' ./internal/blackbox

.PHONY: vet
vet: ## run go vet
	$(GO) vet ./...
	cd e2e && $(GO) vet ./...

.PHONY: lint
lint: bin/golangci-lint ## run the linters
	bin/golangci-lint run ./...

bin/golangci-lint:
	GOBIN=$(CURDIR)/bin $(GO) install $(GOLANGCI_LINT)

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME, a time or a number of runs (5000x)
	FUZZTIME=$(FUZZTIME) scripts/fuzz.sh

.PHONY: oracle
oracle: deps ## compare limiter scripts, Go and the exact model over a million steps
	ORACLE_STEPS=1000000 $(GO) test -count=1 -timeout 1h -v -run TestScriptsGoAndModelAgree ./internal/budget/redisstore

.PHONY: bench-once
bench-once: ## run each benchmark once, to see that it runs
	$(GO) test -run '^$$' -bench . -benchtime 1x ./...

.PHONY: bench
bench: deps build ## compare with a bare reverse proxy, in one run (see bench/README.md)
	$(GO) run ./bench/run -llmgw $(BIN)

.PHONY: tidy
tidy: ## check that go.mod and go.sum are tidy
	$(GO) mod tidy -diff
	cd e2e && $(GO) mod tidy -diff

.PHONY: clean
clean: ## remove what was built
	rm -rf bin e2e/node_modules
