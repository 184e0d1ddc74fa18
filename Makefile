# Every target sets up what it needs: a fresh machine with Python 3.11 has nothing to type first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help setup demo test test-slow test-gpu lint bench bench-apebench reproduce docs clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: $(STAMP) ## make .venv and install lln into it

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "lln needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP) ## simulate, train, roll out 500 steps, draw (a few minutes)
	$(BIN)/python examples/demo.py --out demo

test: $(STAMP) ## the whole test suite
	$(BIN)/python -m pytest -m "not slow and not gpu" $(PYTEST_OPTIONS)

test-slow: $(STAMP) ## checks of minutes rather than seconds
	$(BIN)/python -m pytest -m slow

test-gpu: ## the Triton kernels, on a machine with an NVIDIA GPU (needs torch, NumPy and pytest only)
	PYTHONPATH=src $(PYTHON) -m pytest -p no:cacheprovider tests/gpu -m gpu -ra

lint: $(STAMP) ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP) ## speed and memory, after the operator's own tests (about 8 minutes on a quiet machine)
	$(BIN)/lln bench --check

APE := .venv-apebench
bench-apebench: $(STAMP) ## field networks on APEBench (JAX in an environment of its own; a GPU makes it minutes)
	test -x $(APE)/bin/python || { $(PYTHON) -m venv $(APE) && $(APE)/bin/python -m pip install --quiet apebench; }
	$(APE)/bin/python benchmarks/apebench/data.py
	$(BIN)/python benchmarks/apebench/check.py
	$(BIN)/python benchmarks/apebench/train.py
	$(BIN)/python benchmarks/apebench/roll.py
	$(BIN)/python benchmarks/apebench/closed_form.py
	$(APE)/bin/python benchmarks/apebench/score.py

reproduce: $(STAMP) ## every table and figure of the paper (about an hour on two free cores; resumes)
	$(BIN)/lln reproduce

docs: $(STAMP) ## the documentation as pages, in docs/_build; warnings are errors
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build
	@echo "open docs/_build/index.html"

clean: ## remove what the targets made
	rm -rf $(VENV) demo build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
