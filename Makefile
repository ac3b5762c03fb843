# make test is the one command: it sets up, builds, lints and tests everything.
# Each target does one thing; longer commands are in scripts/.
#
#	FUZZTIME=60s      make fuzz: time for each target
#	BENCH=READ        make bench, gobench, bench-compare: only rows of such a name
#	BENCH_TIME=1s     make bench, bench-compare: time for each side of a row in a round
#	BENCH_ROUNDS=5    make bench, bench-linux: rounds
#	INTEROP_SOAK=1h   make soak: time for the reader and the writer, the random operations, and the bad network
#	STATE_SCHEDULES=10000 make soak, test: random schedules of each model of the NFSv4 state and of NLM
#	INTEROP_KERNEL=6.12 make interop, soak, demo-linux: the version of the guest's Linux (default: 6.1), or 6.1-oldest, the oldest that can be downloaded
#	PREFIX=/usr/local make install: the destination
#	NO_APT=1          install nothing: name missing packages and fail

GO      ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(VERSION)
TOOL    := $(GO) tool -modfile=internal/tools/go.mod
# Checkouts in other directories share what is compiled, and builds of one commit are
# the same.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
# Tests that hang show their stacks, well before CI gives up. The vet of go test is left to lint.
TEST    := $(GO) test -vet=off -shuffle=on -timeout 10m

.PHONY: help build install packages deb container setup test lint conformance fmt race onecpu interop fuzz bench gobench bench-compare bench-linux soak demo demo-linux clean
.NOTPARALLEL:

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 15

build: ## build the commands into bin/
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

PREFIX ?= /usr/local
install: build ## install the commands and their manual pages under PREFIX, and mount.nfsrdma for mount(8)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)/sbin
	install -m 755 bin/nfsrdmad bin/mountrdma bin/nfsrdma-gss $(DESTDIR)$(PREFIX)/bin/
	install -m 644 -Dt $(DESTDIR)$(PREFIX)/share/man/man5 contrib/man/*.5
	install -m 644 -Dt $(DESTDIR)$(PREFIX)/share/man/man8 contrib/man/*.8
	install -m 644 -Dt $(DESTDIR)$(PREFIX)/share/doc/nfsrdma docs/*.md
	ln -sf $(PREFIX)/bin/mountrdma $(DESTDIR)/sbin/mount.nfsrdma

packages: ## deb, rpm and tar.gz for amd64, arm64 and s390x into dist/, with SBOMs and checksums
	scripts/packages

deb: ## the Debian package for this machine, into dist/
	scripts/packages deb/$(shell $(GO) env GOARCH)

container: ## an image with nfsrdmad alone, by podman: localhost/nfsrdmad
	CGO_ENABLED=0 $(GO) build -ldflags '-s -w $(LDFLAGS)' -o bin/container/nfsrdmad ./cmd/nfsrdmad
	podman build -t localhost/nfsrdmad -f contrib/container/Containerfile bin/container

setup: ## install Debian's packages for tests and demo
	scripts/setup

test: ## everything: setup, build, lint, conformance, race, onecpu, interop
	scripts/parts setup build lint conformance race onecpu interop

lint: ## formatting, vet, staticcheck, tidy go.mod, and vet for other machines
	scripts/lint

conformance: ## each requirement has its entry in docs/conformance, and each entry its tests
	$(GO) run ./internal/conformance/check

fmt: ## format the sources
	$(TOOL) gofumpt -w .

# Without GORACE, each process would end a second later.
race: ## unit tests under the race detector
	GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 $(TEST) -race ./...

onecpu: ## unit tests on one processor, to show other failures
	GOMAXPROCS=1 $(TEST) -p $$((2 * $$(nproc))) ./...

interop: ## real Linux in a small virtual machine mounts exports of nfsrdmad
	GO='$(GO)' scripts/interop

fuzz: ## every fuzz target for FUZZTIME
	scripts/fuzz

# The document gets the whole table and nothing else.
BENCH        ?= .
BENCH_TIME   ?= 1s
BENCH_ROUNDS ?= 5
BENCH_DOC    ?= $(if $(filter-out . 1s 5,$(BENCH) $(BENCH_TIME) $(BENCH_ROUNDS)),,docs/performance-log/tables.md)
bench: build ## the speed of the data path beside the machine's limits, alternately; docs/performance-log/tables.md gets the table
	$(GO) run ./internal/bench -rows '$(BENCH)' -time $(BENCH_TIME) -rounds $(BENCH_ROUNDS) -doc '$(BENCH_DOC)'

gobench: ## Go's benchmarks: codecs, placement, credits, dispatch, with allocations
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

bench-compare: ## both against another commit, OLD=COMMIT, in turns, by benchstat
	scripts/bench-compare $(OLD)

# The document gets the tables of at least five rounds.
BENCH_LINUX = INTEROP_BENCH_DOC=$(abspath docs/performance-log/tables.md) $(GO) test -tags interop -run '^$$' -bench Linux -benchtime $(BENCH_ROUNDS)x -timeout 60m -v ./interop/
bench-linux: ## Linux's client over siw at nfsrdmad and at knfsd, in virtual machines, in turns; docs/performance-log/tables.md gets the tables
	INTEROP_COUNTED=1 $(BENCH_LINUX)
	$(BENCH_LINUX)

INTEROP_SOAK ?= 1h
STATE_SCHEDULES ?= 10000
soak: ## the README, the packages' lives and the container on Debian 12 and 13, and twice the same bytes; random schedules of the server's models, also with the race detector; then the interop tests with a long soak, those of version 4 with Linux 6.12, and those of knfsd with the oldest Linux 6.1; run by hand
	scripts/setup soak
	for suite in bookworm trixie; do \
		scripts/readme-trial $$suite && scripts/packages-trial $$suite && scripts/container-trial $$suite || exit 1; \
	done
	scripts/packages-twice
	STATE_SCHEDULES=$(STATE_SCHEDULES) $(GO) test -count=1 -timeout 0 -run 'Schedules$$|^TestOutages$$' ./nfsserver/...
	STATE_SCHEDULES=$$(($(STATE_SCHEDULES) / 10)) $(GO) test -race -count=1 -timeout 0 -run 'Schedules$$|^TestOutages$$' ./nfsserver/...
	INTEROP_SOAK=$(INTEROP_SOAK) $(GO) test -tags interop -count=1 -timeout 0 -v ./interop/...
	INTEROP_KERNEL=6.12 INTEROP_SOAK=$(INTEROP_SOAK) $(GO) test -tags interop -count=1 -timeout 0 -run '4$$|^TestPosix$$' -v ./interop/
	INTEROP_KERNEL=6.1-oldest $(GO) test -tags interop -count=1 -timeout 0 -run 'Knfsd' -v ./interop/

demo: ## serve a sample directory, mount it, copy a large file there and back
	scripts/setup demo
	@$(MAKE) --no-print-directory build
	scripts/demo

demo-linux: build ## boot Linux in a virtual machine and mount a sample directory from there
	$(GO) run ./interop/demo bin/nfsrdmad

clean: ## remove the products of build
	rm -rf bin dist
