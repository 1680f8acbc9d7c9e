# `make help` lists the targets. All of them are plain go commands; without make, see README.md.
SHELL := bash
STATICCHECK := go tool -modfile=.tools/go.mod staticcheck
BENCH ?= .
FUZZTIME ?= 200000x
ARGS ?=
FAULT ?= .

.DEFAULT_GOAL := help
.PHONY: help build demo docs-check test race lint fuzz bench faults swarm prove check

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## the one binary, bin/rollcall
	go build -o bin/rollcall ./cmd/rollcall

demo: build ## a whole mesh on this machine, with a page to click on (ARGS="--listen ...")
	@exec bin/rollcall demo $(ARGS)

docs-check: ## what README and delivery/SERVICE.md show, done with the nats CLI, curl and Node (builds that CLI: minutes)
	.ci/docs-check

test: ## go test ./..., then one line that names what this machine lacks
	@.ci/test

# One thread at a time: with more, Go 1.26 dies now and then under the detector in a synctest bubble
# (SIGSEGV in runtime.(*timer).maybeRunChan, or a failed CHECK of ThreadSanitizer), since the runtime
# has one race context a bubble and runs due timers on any thread. Races are found by order, not by luck.
race: ## the tests under the race detector
	go test -race -cpu 1 -timeout 30m $$(.ci/raced)

lint: ## gofmt, vet, go fix, go mod tidy, staticcheck
	@.ci/lint "$(STATICCHECK)"

fuzz: ## each fuzz target with FUZZTIME inputs (200000x)
	@.ci/fuzz $(FUZZTIME)

bench: ## speed and memory, each row beside a raw NATS request of the same bytes (BENCH=regexp)
	go test -run '^$$' -bench '$(BENCH)' -timeout 60m ./integration/bench/...

faults: ## kill, stop and cut off real processes: 40 min, or 6 with SHORT=1 (FAULT=regexp)
	ROLLCALL_FAULTS=$(if $(SHORT),short,long) go test -count=1 -v -timeout 60m -run '$(FAULT)' ./integration/faults/

swarm: ## 200 runs of a whole mesh in virtual time, under seeded faults (SEEDS=n FROM=n RACE=1; SEED=x)
	@SEEDS=$(SEEDS) FROM=$(FROM) SEED=$(SEED) RACE=$(RACE) .ci/swarm

prove: ## the model of the rules, searched with spin; each seeded fault must be caught (FULL=1: hours)
	@integration/model/prove

check: lint test race ## what a change must pass before it is sent
