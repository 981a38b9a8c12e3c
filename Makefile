# One way to run everything: `make` lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The first Python on the path that is new enough; name another with `make PYTHON=...`.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
# Of `make storm`: how long faults strike, and how is copied meanwhile.
SECONDS ?= 300
MODE ?= exactly-once
# Of `make test-slow`: the time, in seconds since 1970, after which it begins no test; none: it begins all.
UNTIL ?=
# Of `make test-brokers`: the version of the brokers.
KAFKA ?= 3.9.2
# Of `make test-form` and `make storm`: the form of transport that `make test` does not use, and the tests that copy.
FORM ?= records
COPYING := $(patsubst %,k2k_assets_tests/%,replication coordination groups mapping verification overrides permissions registry/test_whole_copy.py)
# Types, and who imports whom.
TYPES := $(BIN)/mypy && $(BIN)/lint-imports --no-logo
# Says that the environment holds what pyproject.toml asks for.
STAMP := $(VENV)/.set-up

# Modules are compiled once, not by each of the many processes that demo and tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo dev check test test-slow test-all test-brokers test-form ui-test alerts-test screenshots storm bench bench-offsets lint style types docs dist lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Set up .venv and fetch Kafka's jars; quick when that is done already
	@$(BIN)/python -m k2k_assets.sandbox
	@$(BIN)/python -m k2k_assets.spark.spark_classes

demo: setup ## Copy sample topics between two real Kafka clusters, check the copy, show the result
	@$(BIN)/k2k demo

dev: setup ## The same clusters with traffic that never ends, under Dagster's UI (DAGSTER_PORT=... names its port)
	@$(BIN)/k2k demo --ui

# Types beside the tests, which wait now and then; what was said of them comes last, whichever of the two fails.
check: style ## Check style and types, and run the tests that need neither clusters nor Spark nor processes
	@said=$$(mktemp); trap 'rm -f "$$said"' EXIT; { $(TYPES); } >"$$said" 2>&1 & types=$$!; \
	K2K_EXAMPLES=0.1 $(BIN)/python -m pytest -n 4 --dist loadfile \
		-m "not integration and not spark and not postgres and not processes and not slow and not storm and not ui and not prometheus"; tested=$$?; \
	wait $$types; typed=$$?; cat "$$said"; exit $$((tested ? tested : typed))

test: setup ## Run the test suite, on real clusters
	K2K_EXAMPLES=0.25 $(BIN)/python -m pytest -n 6 --dist loadfile -m "not slow and not storm and not ui and not prometheus"

test-slow: setup ## Run the slow tests: whole programs, Dagster's daemon, clusters with ACLs (UNTIL=... begins none later)
	K2K_UNTIL=$(UNTIL) $(BIN)/python -m pytest -n 4 --dist loadfile -m "slow and not storm and not ui and not prometheus"

test-all: test test-slow ## Run `make test`, and then the slow tests

test-brokers: setup ## The tests of copying, stops and takeovers on brokers of another Kafka (KAFKA=3.9.2)
	K2K_KAFKA_VERSION=$(KAFKA) $(BIN)/python -m k2k_assets.sandbox
	K2K_KAFKA_VERSION=$(KAFKA) $(BIN)/python -m pytest -n 4 --dist loadfile -m "integration and not spark and not storm" \
		k2k_assets_tests/control k2k_assets_tests/coordination \
		$(patsubst %,k2k_assets_tests/replication/%.py,running/test_older_brokers delivery/test_exactly_once delivery/test_at_least_once running/test_loud_stops running/test_foreign_writers writers/test_takeover)

test-form: setup ## The tests that copy between real clusters, in the other form of transport (FORM=records)
	K2K_FORM=$(FORM) $(BIN)/python -m pytest -n 4 --dist loadfile -m "integration and not spark and not storm" $(COPYING)

ui-test: setup ## Look at Dagster's UI with a real browser (needs Chromium; on Debian: apt-get install chromium)
	$(BIN)/python -m pytest -m ui k2k_assets_tests/ui

alerts-test: setup ## Scrape real programs with a real Prometheus, and test the alert rules (on Debian: apt-get install prometheus)
	$(BIN)/python -m pytest -m prometheus k2k_assets_tests/telemetry k2k_assets_tests/cli/test_alerts.py

screenshots: setup ## The same, and keep what was seen in docs/images
	K2K_SCREENSHOTS=docs/images $(BIN)/python -m pytest -m ui k2k_assets_tests/ui

storm: setup ## Kill, freeze and restart everything at random and compare every record (SECONDS=300, SEED=..., MODE=at-least-once); then the slow tests, and those of the other form (FORM=...)
	$(BIN)/python -m k2k_assets_tests.storm --seconds $(SECONDS) --mode $(MODE) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m pytest -n 2 --dist loadfile -m storm
	$(MAKE) test-form
	K2K_EXAMPLES=20 $(BIN)/python -m pytest k2k_assets_tests/core/test_runs.py k2k_assets_tests/control/test_mapping_records.py k2k_assets_tests/mapping k2k_assets_tests/groups/test_guard.py -m "not integration and not spark"

bench: setup ## Measure against MirrorMaker 2 (some twenty minutes); results go to benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

bench-offsets: setup ## Where consumer groups end up, against MirrorMaker 2 (some fifteen minutes); results likewise
	$(BIN)/python -m benchmarks.offsets

lint: style types ## Check style, types (product, tests, benchmarks) and who imports whom

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(TYPES)

docs: $(STAMP) ## Write the pages that are made from the code: docs/pipeline-file.md, its JSON Schema, docs/k2k-keys.md and docs/stops.md
	$(BIN)/python -m k2k_assets.pipeline.reference > docs/pipeline-file.md
	$(BIN)/python -m k2k_assets.pipeline.key_page > docs/k2k-keys.md
	$(BIN)/python -m k2k_assets.core.stops.page > docs/stops.md
	$(BIN)/python -m k2k_assets.pipeline.json_schema > docs/pipeline.schema.json

# In an environment of its own: nobody needs these tools to work on the project.
dist: ## Build the sdist, of it the wheel, and check both: dist/
	rm -rf dist $(VENV)-dist
	$(PYTHON) -m venv $(VENV)-dist
	$(VENV)-dist/bin/python -m pip install --quiet --disable-pip-version-check build twine
	$(VENV)-dist/bin/python -m build --outdir dist .
	$(VENV)-dist/bin/python -m twine check --strict dist/*
	rm -rf $(VENV)-dist build

lock: ## Put the newest versions that pyproject.toml allows into constraints.txt
	rm -rf $(VENV)-lock
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check '.[dev]'
	$(VENV)-lock/bin/python -m pip freeze --exclude k2k-assets > constraints.txt
	rm -rf $(VENV)-lock

clean: ## Remove .venv, caches and build products (not Kafka's jars in your cache directory)
	rm -rf $(VENV) $(VENV)-lock $(VENV)-dist build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse artifacts
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or newer is needed: install it, or name one with make PYTHON=..."; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make a virtual environment (on Debian: apt-get install python3-venv)"; exit 1; }
	@echo "Setting up $(VENV): a minute or two the first time"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@
