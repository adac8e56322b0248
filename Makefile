# dlq-console: every target builds what it needs; Python >= 3.11 and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PRODUCT := $(VENV)/.product
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-deps
WORKERS ?= 5
UPGRADE ?= --upgrade

.PHONY: help demo test check lint types imports bench faults mutants sbom pins pages site stranger quick screenshots browser clean

help: ## show the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(PRODUCT): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "dlq-console needs Python 3.11 or newer: make PYTHON=python3.11 ..."; exit 2; }
	@echo "1/3  making $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "2/3  fetching the $$(grep -c == constraints.txt) packages the product needs, each checked by its digest"
	@$(PIP) --quiet --require-hashes -r constraints.txt
	@echo "3/3  installing dlq-console"
	@$(PIP) --quiet --no-build-isolation -e .
	@$(BIN)/python -m compileall -q -j 0 backends console sink/dlq_sink venues
	@touch $(PRODUCT)

$(STAMP): $(PRODUCT) constraints-dev.txt
	@echo "fetching the test tools, the venues' SDKs and a Postgres: about 135 packages in all"
	@$(PIP) --quiet --require-hashes -r constraints-dev.txt
	@touch $(STAMP)

demo: $(PRODUCT) ## a throw-away store and a practice venue, opened in the console
	@$(BIN)/dlq demo

test: $(STAMP) ## every test, with a real Postgres it brings itself
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

quick: $(STAMP) ## for the edit loop: lint, units and pages, and what failed last
	@$(BIN)/ruff check . && $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --failed-first tests/unit tests/docs tests/test_architecture.py

lint: $(STAMP)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(STAMP)
	@$(BIN)/mypy

imports: $(STAMP)
	@$(BIN)/lint-imports --no-cache

check: lint types imports test ## lint, types, import rules, tests: what CI runs

faults: $(STAMP) ## kill it everywhere: the whole fault matrix, every account's keys, every wait, eight consoles racing, long models, a terminal at its worst
	@$(BIN)/python -m tests.faults.matrix --workers $(WORKERS)
	@$(BIN)/python -m tests.faults.account_matrix
	@$(BIN)/python -m tests.faults.time_matrix
	@$(BIN)/python -m tests.faults.integration_matrix
	@$(BIN)/python -m tests.faults.engine_kills --kills 10000
	@DLQ_RACE=8x500 DLQ_EXAMPLES=400 DLQ_KILLS=200 DLQ_DAMAGED=2000 $(BIN)/python -m pytest tests/faults tests/services/test_machine.py
	@DLQ_DAMAGED=2000 DLQ_HOSTILE=10000 $(BIN)/python -m pytest tests/cli/test_hostile_sqlite.py tests/cli/test_hostile_strings.py
	@DLQ_EXAMPLES=2000 $(BIN)/python -m pytest $$(grep -rl --include='test_*.py' DLQ_EXAMPLES tests/contract tests/unit)
	@DLQ_EVERY_CELL=1 $(BIN)/python -m pytest tests/contract/venues/test_faults.py
	@DLQ_CATALOGS=500 $(BIN)/python -m pytest tests/faults/test_hostile_catalogs.py
	@DLQ_HOSTILE=100000 DLQ_RESIZES=1000 DLQ_STALL_SECONDS=60 DLQ_FLOOD_SECONDS=10 $(BIN)/python -m pytest tests/terminal

mutants: $(STAMP) ## wrong changes to the send path, one at a time in a copy of the tree: the tests must see each of them
	@$(BIN)/python -m tests.faults.mutants --workers $(WORKERS)

bench: $(STAMP) ## every figure beside its peer, as ratios of one run, and a table with the bounds (needs a quiet machine; SHORT=1 for minutes, ROWS=1000000 for larger stores)
	@$(BIN)/python -m bench $(if $(SHORT),--short) $(if $(ROWS),--rows $(ROWS))

browser: $(STAMP) ## the console in headless Chromium (Debian: apt install chromium)
	@DLQ_BROWSER=1 $(BIN)/python -m pytest tests/browser

sbom: $(PRODUCT) ## what is installed, as a software bill of materials: build/sbom.json (CycloneDX)
	@mkdir -p build && $(BIN)/python .ci/sbom.py > build/sbom.json && echo "build/sbom.json"

pins: ## newest versions that pyproject.toml allows, with their digests (needs uv; UPGRADE= adds only what is missing)
	@pin() { uv pip compile pyproject.toml --group build --universal --generate-hashes $(UPGRADE) --no-header --no-annotate --quiet "$$@"; }; \
	  pin -o constraints.txt && pin --extra dev --extra bench -o constraints-dev.txt && \
	  pin --extra docs -c constraints-dev.txt -o constraints-docs.txt

site: $(PRODUCT) ## the pages of docs/ as a site: build/site
	@$(PIP) --quiet --require-hashes -r constraints-docs.txt
	@$(BIN)/python -m mkdocs build --strict --quiet && echo "build/site/index.html"

pages: $(PRODUCT) ## the parts of docs/ that are made of the product's own tables
	@$(BIN)/python .ci/pages.py

stranger: ## a fresh clone with an empty home: the demo, an installation, the tutorial (TESTS=--tests adds every test)
	@$(PYTHON) -m tests.docs.stranger $(TESTS)

screenshots: $(STAMP) ## screenshots/ anew, from the scenes the snapshots show
	@$(BIN)/python -m tests.support.snapshots.pictures

clean: ## remove what was built
	@rm -rf $(VENV) .demo .bench build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
