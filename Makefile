# Every target sets up what it needs: a fresh machine with Python 3.11 has nothing to type first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
FUZZ   := $(VENV)/.fuzz

.PHONY: help setup demo test test-slow test-gpu lint bench bench-peers bench-accuracy bench-apebench validate fuzz-mutants faults-soak mutants fuzz \
  faults soak metrics reproduce docs clean coverage security wheel

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: $(STAMP) ## make .venv and install lln into it

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "lln needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP) ## fit LensForecaster to two systems, compare with simple methods, draw, write pages (a few minutes)
	$(BIN)/python examples/demo.py --out demo

# One worker for each core, one thread for each worker: torch would start a thread for each core in every worker.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal
test: $(STAMP) ## the test suite, in parallel
	$(PYTEST) -m "not slow and not gpu and not validation" $(PYTEST_OPTIONS)

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
	$(BIN)/python -m benchmarks.speed --check

bench-peers: $(STAMP) ## rollouts beside other packages, which are installed beside the benchmark
	test -d benchmarks/speed/packages/pysindy || $(BIN)/python -m pip install --quiet --no-deps \
	  --target benchmarks/speed/packages pysindy derivative reservoirpy
	$(BIN)/python -m benchmarks.speed --only peers

ACCURACY := .venv-accuracy
bench-accuracy: $(STAMP) ## LensForecaster() on chaotic systems, problems with noise and measured series, beside tuned baselines (an hour)
	test -x $(ACCURACY)/bin/python || { $(PYTHON) -m venv $(ACCURACY) && $(ACCURACY)/bin/python -m pip install --quiet dysts; }
	test -f benchmarks/accuracy/data/dysts-I-Z.npz || $(ACCURACY)/bin/python benchmarks/accuracy/data.py
	test -d benchmarks/accuracy/packages/sktime || $(BIN)/python -m pip install --quiet --no-deps \
	  --target benchmarks/accuracy/packages statsmodels sktime vega_datasets
	$(BIN)/python -m benchmarks.accuracy.systems
	$(BIN)/python -m benchmarks.accuracy.series
	$(BIN)/python -m benchmarks.accuracy.problems
	$(BIN)/python -m benchmarks.accuracy.kinds
	$(BIN)/python -m benchmarks.accuracy.fields

APE := .venv-apebench
bench-apebench: $(STAMP) ## field networks on APEBench (JAX in an environment of its own; a GPU makes it minutes)
	test -x $(APE)/bin/python || { $(PYTHON) -m venv $(APE) && $(APE)/bin/python -m pip install --quiet apebench; }
	$(APE)/bin/python benchmarks/apebench/data.py
	$(BIN)/python benchmarks/apebench/check.py
	$(BIN)/python benchmarks/apebench/train.py
	$(BIN)/python benchmarks/apebench/roll.py
	$(BIN)/python benchmarks/apebench/closed_form.py
	$(BIN)/python benchmarks/apebench/product.py
	$(APE)/bin/python benchmarks/apebench/score.py

validate: $(FUZZ) ## everything under validation/, then its page (two hours; `make -j2 validate` an hour on two cores)
	$(MAKE) --no-print-directory fuzz-mutants faults-soak
	$(BIN)/python -m validation.page docs/trust.md
	$(BIN)/python -m pytest -m validation

# Two halves of about the same length; within each, one check after the other.
fuzz-mutants:
	$(MAKE) --no-print-directory fuzz
	$(MAKE) --no-print-directory mutants

faults-soak:
	$(MAKE) --no-print-directory faults
	$(MAKE) --no-print-directory soak

metrics: $(STAMP) ## files behind lln fit, rollout and export; files in a folder; lines of src
	$(BIN)/python validation/metrics.py

mutants: $(STAMP) ## 300 small changes of the code, and how many of them the tests notice (an hour of one core; after an edit minutes)
	nice $(BIN)/python -m validation.mutants

FUZZ_OPTIONS ?=
fuzz: $(FUZZ) ## 10,000 bad files and command lines for every reader (about 40 minutes of a core)
	nice $(BIN)/python -m validation.fuzz --json validation/results/fuzz.json $(FUZZ_OPTIONS)

$(FUZZ): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	@touch $@

FAULTS_OPTIONS ?=
faults: $(STAMP) ## over 300 faults in the middle of real work: nothing lost, nothing wrong (about a quarter of an hour)
	$(BIN)/python -m validation.faults --store $(FAULTS_OPTIONS)

soak: $(STAMP) ## 30 minutes of mixed work in one process, with memory, handles and threads watched
	OMP_NUM_THREADS=1 $(BIN)/python -m validation.soak --out validation/results/soak.json

REPRODUCE_OPTIONS ?=
reproduce: $(STAMP) ## the paper's runs and report; what is stored is not run again (REPRODUCE_OPTIONS="--out results/mine" runs all)
	$(BIN)/lln reproduce $(REPRODUCE_OPTIONS)

coverage: $(STAMP) ## the lines of src that the tests run, in commands and workers too (twice as long as `make test`)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -m "not slow and not gpu and not validation" $(PYTEST_OPTIONS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=92

security: $(STAMP) ## what SECURITY.md promises, and known vulnerabilities of the pinned dependencies
	$(BIN)/python -m pytest -q tests/test_safe_source.py tests/core/test_atomic.py tests/core/test_folders.py \
	  tests/data/test_formats_bad_files.py tests/data/test_sandbox.py tests/export/test_telemetry.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt pip-audit
	$(BIN)/python validation/vulnerabilities.py

wheel: $(STAMP) ## build it, install it in a fresh environment elsewhere, try every command from there (minutes)
	$(BIN)/python validation/wheel.py

docs: $(STAMP) ## the documentation as pages, in docs/_build; warnings are errors
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build
	@echo "open docs/_build/index.html"

clean: ## remove what the targets made
	rm -rf $(VENV) demo build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
