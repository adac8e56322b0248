# dlq-console: every target builds what it needs; Python >= 3.11 and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2

.PHONY: help demo test check lint types imports bench faults mutants screenshots browser clean

help: ## show the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "dlq-console needs Python 3.11 or newer: make PYTHON=python3.11 ..."; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP) ## a throw-away store and a practice venue, opened in the console
	@$(BIN)/dlq demo

test: $(STAMP) ## every test, with a real Postgres it brings itself
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

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
	@DLQ_RACE=8x500 DLQ_EXAMPLES=400 DLQ_KILLS=200 $(BIN)/python -m pytest tests/faults tests/services/test_machine.py
	@DLQ_EVERY_CELL=1 $(BIN)/python -m pytest tests/contract/venues/test_faults.py
	@DLQ_CATALOGS=500 $(BIN)/python -m pytest tests/faults/test_hostile_catalogs.py
	@DLQ_HOSTILE=100000 DLQ_RESIZES=1000 DLQ_STALL_SECONDS=60 DLQ_FLOOD_SECONDS=10 $(BIN)/python -m pytest tests/terminal

mutants: $(STAMP) ## wrong changes to the send path, one at a time in a copy of the tree: the tests must see each of them
	@$(BIN)/python -m tests.faults.mutants --workers $(WORKERS)

bench: $(STAMP) ## every figure beside its peer, as ratios of one run (needs a quiet machine and some minutes)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@status=0; for one in stores layouts replay triage screen; do \
	  test -f bench/$$one.py || continue; echo; echo "== bench.$$one"; $(BIN)/python -m bench.$$one || status=1; done; exit $$status

browser: $(STAMP) ## the console in headless Chromium (Debian: apt install chromium)
	@DLQ_BROWSER=1 $(BIN)/python -m pytest tests/browser

screenshots: $(STAMP) ## screenshots/ anew, from the scenes the snapshots show
	@$(BIN)/python -m tests.support.snapshots.pictures

clean: ## remove what was built
	@rm -rf $(VENV) .demo .bench build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
