# Everything here works on a fresh machine that has Go and make. GOFLAGS and the
# other variables of Go's environment are left to the caller.

# How many packages are tested at once: their servers share the machine, and most of
# their tests wait most of the time.
TEST_PACKAGES_AT_ONCE ?= 3
# What is tested, for example `make test TEST=./router/...`. What takes longest begins
# first: at the end nothing is left to wait for alone.
TEST ?= ./internal/faults ./router ./internal/system ./internal/faults/pages ./adapters/postgres/... ./admin/... ./bench ./adapters/kafka ./cmd/outrider work
# The same without the examples, each of which is a program that is linked for a test or two: `make race` and CI run them.
WITHOUT_EXAMPLES = $(filter-out work,$(TEST)) $(if $(filter work,$(TEST)),$(shell go list work | grep -v /examples/))
# Further flags of go test, for example `make test TESTFLAGS='-run G3_'`.
TESTFLAGS ?=
# Tests are some eighty programs. Linking takes half the time without symbols and DWARF, which only debuggers need, and a tenth less
# when the linker collects its garbage rarely. `make lint` runs the checks of vet, and more.
LIGHTLY := -ldflags=-s -vet=off -toolexec 'env GOGC=400'
# Tests run without the race detector, which makes their processor time two to four times as
# long; CI runs `make race` too. It builds all packages with it: one built without it, such as SQLite to
# save time, makes it report races that are none, because code of generic functions is shared. The check of pointers
# is left out in SQLite, which is C translated to Go: it was half of the time of its tests.
RACE := $(LIGHTLY) -race -gcflags=modernc.org/...=-d=checkptr=0
# How often `make flaky` runs the tests.
N ?= 20
# For how long `make soak` repeats each fault.
SOAK ?= 10m
# How much `make fuzz` does with each target: a number of inputs (500x) or a time (30s).
FUZZTIME ?= 500x
# Flags of the benchmark, for example `make bench BENCHFLAGS='-rows 3000000'`.
BENCHFLAGS ?=

# The modules; `work` is the pattern of the packages of those in go.work. Module deploy is not in it.
MODULES := . bench deploy examples/orm internal/faults internal/interleave
TESTENV := go run ./internal/testenv/cmd/testenv --
BRIEFLY := go run ./internal/testenv/cmd/testenv -brief -browser --
GOLANGCI_LINT := go tool -modfile=$(CURDIR)/tools/go.mod golangci-lint
# Test files may be longer than others (.golangci.yml), but not endless.
LONGEST_TEST_FILE := 700

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Run the whole system in one process: no server, no configuration
	go build -o bin/outrider ./cmd/outrider
	bin/outrider demo

.PHONY: build
build: ## Build the binary bin/outrider, as it is released
	GOWORK=off go build -trimpath -ldflags '-s -w' -o bin/outrider ./cmd/outrider

# The image: which release it is, and the file that has it.
VERSION ?= $(shell git describe --tags --always --dirty)
COMMIT ?= $(shell git rev-parse HEAD)
DATE ?= $(shell TZ=UTC0 git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)
IMAGE ?= $(CURDIR)/dist/outrider-image.tar
# Further flags of deploy/image, for example `make image IMAGEFLAGS='-push ghcr.io/me/outrider:trial'`.
IMAGEFLAGS ?=
BUILDINFO := github.com/outriderhq/outrider/internal/buildinfo

.PHONY: image
image: ## Build the container image for amd64 and arm64 as an OCI layout, IMAGE=dist/outrider-image.tar, without Docker
	@mkdir -p $(dir $(IMAGE))
	@set -e; for arch in amd64 arm64; do \
		GOWORK=off CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build -trimpath -ldflags "-s -w -X $(BUILDINFO).version=$(VERSION) \
			-X $(BUILDINFO).commit=$(COMMIT) -X $(BUILDINFO).date=$(DATE)" -o $(IMAGE).d/linux_$$arch/outrider ./cmd/outrider; done
	cd deploy && GOWORK=off go run ./image -binaries $(IMAGE).d -zones "$$(go env GOROOT)/lib/time/zoneinfo.zip" \
		-version $(VERSION) -commit $(COMMIT) -date $(DATE) -out $(IMAGE) $(IMAGEFLAGS)

.PHONY: test
test: ## Install PostgreSQL, MariaDB, Kafka, RabbitMQ and Chromium where needed, run every test but those of examples
	@echo "make test takes 13 minutes on two cores, and the first time a few more to compile everything"
	$(BRIEFLY) go test $(LIGHTLY) -timeout 25m -p $(TEST_PACKAGES_AT_ONCE) -parallel 4 $(TESTFLAGS) $(WITHOUT_EXAMPLES)

# Empty: race has the volumes of make test.
FULL ?= 1

.PHONY: race
race: ## Run every test with the race detector, and with larger volumes than make test, or with FULL= the same
	$(BRIEFLY) env OUTRIDER_TEST_FULL=$(FULL) go test $(RACE) -timeout 45m -p $(TEST_PACKAGES_AT_ONCE) $(TESTFLAGS) $(TEST)

# What is tested on other versions of PostgreSQL and of MariaDB: PART of the tests of their adapters, and the main faults.
PART ?= .
POSTGRES_FAULTS := KillLoopHTTP|FlowCatalystKillLoop|FlowCatalystKilledAtEveryStep|InstancesOfAQueueAreKilled|NetworkToPostgres|OpenTransactionsDelayNobody|RebaseAfterARestore

.PHONY: test-postgres
test-postgres: ## Run the tests of PostgreSQL's adapters and the main faults on VERSION=14 (to 18), from Maven
	go run ./internal/testenv/cmd/testenv -brief -postgres $(VERSION) -- sh -c \
		"go test -timeout 15m -p $(TEST_PACKAGES_AT_ONCE) -run '$(PART)' $(TESTFLAGS) ./adapters/postgres/... && \
		go test -timeout 15m -run '$(POSTGRES_FAULTS)' $(TESTFLAGS) ./internal/faults"

MYSQL_FAULTS := QueueInMySQL|LeaderInMySQL|MariaDBOfAQueue

.PHONY: test-mysql
test-mysql: ## Run the tests of MariaDB's and MySQL's adapters and the main faults on VERSION=11.4 (or 10.11), from Maven
	go run ./internal/testenv/cmd/testenv -brief -mariadb $(VERSION) -- sh -c \
		"go test -timeout 15m -p $(TEST_PACKAGES_AT_ONCE) -run '$(PART)' $(TESTFLAGS) ./adapters/mysql/... && \
		go test -timeout 5m -run 'MySQL' $(TESTFLAGS) ./outbox && \
		go test -timeout 15m -run '$(MYSQL_FAULTS)' $(TESTFLAGS) ./internal/faults"

# How many interleavings of each scenario `make interleave` runs: a number, or all.
SHARE ?= 40
# On a version of PostgreSQL it runs without MariaDB.
INTERLEAVED = $(if $(filter 14 15 16 17 18,$(VERSION)),-postgres $(VERSION),-servers PostgreSQL,MariaDB)

.PHONY: interleave
interleave: ## Interleave the statements of relays, publishers and operators, SHARE=40 (or all) ways, and those of mutants; VERSION=14 (to 18) of PostgreSQL
	go run ./internal/testenv/cmd/testenv -brief $(INTERLEAVED) -- env OUTRIDER_INTERLEAVE=$(SHARE) go test $(LIGHTLY) -v -count=1 -timeout 5h -parallel 4 \
		$(if $(findstring -postgres,$(INTERLEAVED)),-skip /MariaDB) $(TESTFLAGS) ./internal/interleave

.PHONY: api-check
api-check: ## Hold the admin API against its document with schemathesis (needs Python and PyPI)
	OUTRIDER_TEST_SCHEMATHESIS=1 go test -v -count=1 -timeout 15m -run TheDocumentIsTrue $(TESTFLAGS) ./admin/api

.PHONY: flaky
flaky: ## Run every test N=20 times beside four busy loops, and list which failed how often
	$(BRIEFLY) go run ./internal/testenv/cmd/flaky -n $(N) -- go test -json -count=1 $(RACE) -timeout 60m -p $(TEST_PACKAGES_AT_ONCE) $(TESTFLAGS) $(TEST)

.PHONY: soak
soak: ## Repeat every fault for SOAK=10m, with millions of rows: an hour or two
	$(TESTENV) env OUTRIDER_SOAK=$(SOAK) go test -v -timeout 24h -p 1 $(TESTFLAGS) ./internal/faults ./router ./adapters/kafka ./adapters/postgres/... ./config

TRACES ?= 1000

.PHONY: traces
traces: ## Check TRACES=1000 short runs of two relays, of each kind of table, step by step against the model: an hour
	go run ./internal/testenv/cmd/testenv -brief -servers PostgreSQL -- env OUTRIDER_TEST_TRACES=$(TRACES) go test -v -count=1 -timeout 5h -run TracesKeep $(TESTFLAGS) ./internal/faults

.PHONY: test-upgrade
test-upgrade: ## Run relays of former builds and of this one on the same tables, under load and kills; evidence in bin/upgrade.ndjson
	@mkdir -p bin && rm -f bin/upgrade.ndjson
	$(BRIEFLY) env OUTRIDER_TEST_UPGRADE=1 OUTRIDER_EVIDENCE=$(CURDIR)/bin/upgrade.ndjson go test -v -count=1 -timeout 15m -run Upgrade $(TESTFLAGS) ./internal/faults
	@cat bin/upgrade.ndjson

.PHONY: test-deploy
test-deploy: ## Build packages, chart and the other things of deploy/, and try each with the programs that read it
	$(BRIEFLY:--=-prometheus --) sh -c '(cd deploy && GOWORK=off go test -timeout 30m $(TESTFLAGS) ./...) && \
		OUTRIDER_TEST_MONITORING=1 go test $(TESTFLAGS) -run "^TestAlert" ./internal/faults'

# make release-snapshot RELEASE_CONFIG=FILE takes another configuration of goreleaser.
RELEASE_CONFIG ?= .goreleaser.yaml
RELEASE := env PATH="$(CURDIR)/bin/tools:$$PATH" GOWORK=off goreleaser release --clean --config $(RELEASE_CONFIG)
# cosign signs by a key, or by the identity of the hosted workflow.
SIGN := $(if $(COSIGN_KEY)$(ACTIONS_ID_TOKEN_REQUEST_URL),,--skip=sign)

.PHONY: release-tools
release-tools:
	@mkdir -p bin/tools
	GOWORK=off go build -modfile=tools/release/go.mod -ldflags=-s -o bin/tools/ \
		github.com/goreleaser/goreleaser/v2 github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

# Without a remote, goreleaser would not look at the commit.
.PHONY: release-snapshot
release-snapshot: release-tools ## Build archives, packages and SBOMs of this commit into dist/
	GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/outriderhq/outrider $(RELEASE) --snapshot --skip=sign

# All six platforms take a quarter of an hour on two cores.
.PHONY: package
package: ## The same for this platform only: dist/*.deb, *.rpm, *.tar.gz
	@mkdir -p bin
	sed -e "s/goos: \\[.*/goos: [$$(go env GOOS)]/" -e "s/goarch: \\[.*/goarch: [$$(go env GOARCH)]/" .goreleaser.yaml > bin/goreleaser.yaml
	$(MAKE) release-snapshot RELEASE_CONFIG=bin/goreleaser.yaml

.PHONY: release
release: release-tools ## Build the release of the tag of this commit, sign it if COSIGN_KEY is set, and upload it as a draft
	$(RELEASE) $(SIGN)

.PHONY: short
short: ## Run the tests that need no server
	go test $(LIGHTLY) -short $(TESTFLAGS) $(TEST)

.PHONY: fuzz
fuzz: ## Try FUZZTIME=500x inputs on each fuzz target
	@for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do \
		for target in $$(grep -ho '^func Fuzz[A-Za-z0-9]*' $$dir/*_test.go | cut -c 6-); do \
			echo "$$dir $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$dir || exit 1; \
		done; done

# Each module alone, as those see it who do not have go.work.
.PHONY: lint
lint: export GOWORK = off
lint: lint-format lint-tests lint-workflows ## Check format, modules, code and workflows
	@set -e; for module in $(MODULES); do echo "module $$module"; \
		(cd $$module && go mod tidy -diff && go vet ./... && $(GOLANGCI_LINT) run); done

.PHONY: lint-format
lint-format:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		echo "gofmt would change these files; run gofmt -w on them:"; echo "$$unformatted"; exit 1; fi

.PHONY: lint-tests
lint-tests:
	@find . -name '*_test.go' -exec awk -v max=$(LONGEST_TEST_FILE) \
		'FNR == max + 1 {print FILENAME " is longer than " max " lines: split it"; bad = 1} END {exit bad}' {} +

# Without shellcheck and pyflakes, which some machines have and others do not.
.PHONY: lint-workflows
lint-workflows: export GOWORK = off
lint-workflows:
	go tool -modfile=$(CURDIR)/tools/actionlint/go.mod actionlint -shellcheck= -pyflakes=

.PHONY: vulncheck
vulncheck: export GOWORK = off
vulncheck: ## Look for known vulnerabilities in what each module calls (needs the internet)
	@set -e; for module in $(MODULES); do echo "module $$module"; \
		(cd $$module && go tool -modfile=$(CURDIR)/tools/go.mod govulncheck ./...); done

# PostgreSQL is the benchmark's own.
BENCH := go run ./internal/testenv/cmd/testenv -servers Kafka,MariaDB,MongoDB -- go run ./bench

.PHONY: bench
bench: ## Measure Outrider, bare loops, the stock pipeline, Debezium and River
	$(BENCH) -write $(BENCHFLAGS)

# What `make bench-compare` compares the working tree with, and how often; six pairs are the fewest that can tell a difference from noise.
REV ?= HEAD
PAIRS ?= 7

.PHONY: bench-compare
bench-compare: ## Measure Outrider of REV=HEAD and of the working tree in PAIRS=7 interleaved pairs, and print the ratios
	@mkdir -p bin
	$(BENCH) -compare $(REV) -runs $(PAIRS) -scenario drain,latency -peers outrider -duration 2s -warmup 2 -limit 1h -record bin/bench-compare.ndjson $(BENCHFLAGS)
