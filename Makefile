# Everything sets itself up: the first target you run makes .venv from hashed requirements.
# PYTHON=/path/to/python3.12 chooses the interpreter.

SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.run-installed
DEV_STAMP := $(VENV)/.dev-installed
DOCS_STAMP := .venv-docs/.installed
PYTEST := $(BIN)/python -m pytest
JOBS ?= 2

.PHONY: help demo demo-cluster kube test test-long test-cluster bench bench-quick bench-cluster lint format docs wheel clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: $(RUN_STAMP) ## set up and show the six seed scenarios
	@$(BIN)/terrazzo demo

test: $(DEV_STAMP) ## set up and run the tests (a few minutes)
	@$(PYTEST) -n $(JOBS) -m "not long and not cluster"

test-long: $(DEV_STAMP) ## the long walks over the ledger (10^6 steps, many minutes)
	@$(PYTEST) -m long

kube: ## build the parts of a Kubernetes from Go modules, once, into a cache (about twenty minutes)
	@tools/kube/build

test-cluster: $(DEV_STAMP) kube ## the tests against real parts of Kubernetes, two versions
	@TERRAZZO_MUST_CLUSTER=1 $(PYTEST) -n $(JOBS) --dist loadfile -m cluster tests/cluster

lint: $(DEV_STAMP) ## style, types, layers
	@failed=0; \
	for check in "ruff check ." "ruff format --check ." "mypy" "mypy $(wildcard tests/cluster/*.py)" "lint-imports --no-cache"; do \
		echo "== $$check"; $(BIN)/$$check || failed=1; \
	done; exit $$failed

format: $(DEV_STAMP) ## format the code
	@$(BIN)/ruff check --select I --fix -q .
	@$(BIN)/ruff format .

demo-cluster: kube $(DEV_STAMP) ## a real Kubernetes with Terrazzo and the examples in it, until Ctrl-C
	@$(BIN)/python -m terrazzo.testing.cluster.demo

bench: $(RUN_STAMP) ## all measurements, results to bench/results (about half an hour)
	@for script in decision scaling rebuild churn openb; do echo "== bench/$$script.py"; $(BIN)/python bench/$$script.py || exit 1; done

bench-quick: $(RUN_STAMP) ## the same, small, to see that they run
	@for script in decision scaling rebuild churn openb; do echo "== bench/$$script.py --quick"; $(BIN)/python bench/$$script.py --quick || exit 1; done

bench-cluster: $(DEV_STAMP) kube ## the control plane, most of it on a real Kubernetes (an hour or so)
	@for script in admission extender writes quality coldstart throughput; do echo "== bench/$$script.py"; $(BIN)/python bench/$$script.py || exit 1; done

docs: $(DOCS_STAMP) ## build the documentation to docs/_build/html; a warning is an error
	@.venv-docs/bin/python -m sphinx -W -n -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

wheel: $(DEV_STAMP) ## build the wheel to dist/
	@$(BIN)/python -m hatchling build -t wheel

clean: ## remove what was built, also the virtual environments
	@rm -rf .venv .venv-docs docs/_build dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# The stamp depends on what it was made from, so a change of requirements installs anew.
$(RUN_STAMP): requirements/run.txt pyproject.toml tools/venv.sh
	@tools/venv.sh $(VENV) requirements/run.txt
	@$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	@touch $@

$(DEV_STAMP): $(RUN_STAMP) requirements/dev.txt
	@tools/venv.sh $(VENV) requirements/dev.txt
	@touch $@

$(DOCS_STAMP): requirements/docs.txt tools/venv.sh
	@tools/venv.sh .venv-docs requirements/docs.txt
	@.venv-docs/bin/python -m pip install -q --no-deps --no-build-isolation -e .
	@touch $@
