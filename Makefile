# labelwright: everything happens in .venv; nothing else on the machine is touched, but for `make timbl` and `make test-browser`.
PYTHON ?= python3
VENV := .venv
LOWEST := .venv-lowest
SPACY := .venv-spacy
GPU := .venv-gpu
BROWSER := .venv-browser
BIN := $(VENV)/bin
# Kernels are compiled by pip; when one has changed, it is asked again.
KERNELS := hatch_build.py $(wildcard src/labelwright/kernels/*.py src/labelwright/kernels/*.pxd)
CHECKED := build/checked
FAST := "not slow and not corpora"
QUIET := -m pip --disable-pip-version-check --quiet --quiet install
PIP := $(BIN)/python $(QUIET)
NEW_PIP := "pip>=25.1"  # the first that knows --group

.DEFAULT_GOAL := help
.PHONY: help demo lint test test-all test-lowest test-spacy test-gpu test-browser boundscheck fuzz nightly audit bench docs timbl debian clean

help:  ## show this
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1|/' | column -t -s "|" 2>/dev/null \
		|| grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST)

demo: $(VENV)/.installed  ## install, then train a tagger on built-in data and show where it is uncertain
	@$(BIN)/labelwright demo

lint: $(VENV)/.installed-test
	@$(BIN)/ruff check --quiet src tests benchmarks hatch_build.py
	@$(BIN)/ruff format --check --quiet src tests benchmarks hatch_build.py
	@$(BIN)/mypy

test: lint  ## install, then lint, types and the tests that are not slow
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m $(FAST)

test-all: lint  ## install, then lint, types and all tests, with more drawn examples
	@LABELWRIGHT_TESTS=all $(BIN)/python -m pytest -n 2 --dist worksteal

test-lowest: $(LOWEST)/.installed-test  ## install the lowest version of every dependency, then the tests that are not slow
	@$(LOWEST)/bin/python -m pytest -n 2 --dist worksteal -m $(FAST)

test-spacy: $(SPACY)/.created  ## install the lowest, then the newest spaCy, and test its component and files with each
	@for versions in lowest-direct highest; do \
		$(SPACY)/bin/uv pip install --quiet --python $(SPACY)/bin/python --resolution $$versions --upgrade \
			--editable ".[spacy]" --group test || exit 1; \
		$(SPACY)/bin/python -m pytest -n 0 tests/interchange/test_spacy_component.py || exit 1; \
	done

test-gpu: $(GPU)/.installed-test  ## install PyTorch, then the tests of training on a device; on a GPU where there is one
	@$(GPU)/bin/python -m pytest -n 0 tests/device

# Chromium is Debian's, asked for as TiMBL is below; the pages are driven by Playwright, which is told where it is.
test-browser: $(BROWSER)/.installed-test  ## install Playwright, schemathesis and, where allowed, Chromium; test the pages and the service
	@$(MAKE) --silent debian COMMAND=chromium
	@$(BROWSER)/bin/python -m pytest -n 0 tests/browser tests/serve/test_document.py

# Sanitizers stop at the first bad address; checked kernels abort at an index out of bounds, which
# nothing can catch.  They are built in a copy, so that those of daily work stay.
CHECKED_PYTHON = LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 \
	PYTHONPATH=$(CHECKED)/src $(BIN)/python

boundscheck: $(VENV)/.installed-test  ## install, then all tests and some fuzzing with kernels that check bounds and addresses
	@mkdir -p $(CHECKED) && cp -r src hatch_build.py $(CHECKED) && rm -f $(CHECKED)/src/labelwright/kernels/*.so
	@cd $(CHECKED) && LABELWRIGHT_BUILD=checked $(CURDIR)/$(BIN)/python hatch_build.py
	@$(CHECKED_PYTHON) -m pytest -n 2 --dist worksteal -m $(FAST) tests
	@$(CHECKED_PYTHON) -m tests.fuzz.made_files --seed 0 --cases 2000
	@$(CHECKED_PYTHON) -m tests.fuzz.inputs --seed 0 --cases 2000

fuzz: $(VENV)/.installed-test  ## install, then model files and inputs made wrong on purpose, and kills of training, until you stop it
	@for seed in $$(seq 0 10000 1000000000); do \
		$(BIN)/python -m tests.fuzz.headers --every 20 --first $$((seed / 10000 % 20)) || exit 1; \
		$(BIN)/python -m tests.fuzz.made_files --seed $$seed --cases 10000 || exit 1; \
		$(BIN)/python -m tests.fuzz.inputs --seed $$seed --cases 10000 || exit 1; \
		$(BIN)/python -m tests.fuzz.kills --seed $$seed --kills 20 || exit 1; \
	done

audit: $(VENV)/.installed-test  ## install, then look for known vulnerabilities in what labelwright depends on
	@$(PIP) "pip-audit>=2.7"
	@$(BIN)/pip-audit --skip-editable

nightly: $(VENV)/.installed-test  ## install, then all tests, with new and many more examples of the property tests
	@LABELWRIGHT_TESTS=nightly $(BIN)/python -m pytest -n 2 --dist worksteal

bench: $(VENV)/.installed-bench  ## install, then measure side by side with CRFsuite
	@$(BIN)/python benchmarks/run.py

docs: $(VENV)/.installed-docs  ## install, then build all pages, the gallery and the reference into site/
	@$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going -d build/docs --conf-dir docs . site
	@echo "open site/index.html"

# TiMBL is the reference of the memory-based learner.  It is a Debian package, so it cannot go into .venv: this asks
# apt-get for it, where that exists and nobody has to type a password (root, or sudo that does not ask).  Only downloads
# can take long, so only they are cut off.  Whatever goes wrong is no error: the tests that need TiMBL then say why they
# are skipped.  `make test` leaves the machine alone; continuous integration of all tests (.ci/run test-all) comes here first.
timbl:  ## install TiMBL, which some tests compare with, where the package manager lets us
	@$(MAKE) --silent debian COMMAND=timbl

debian:
	@command -v $(COMMAND) >/dev/null || ! command -v apt-get >/dev/null || { \
		if [ "$$(id -u)" = 0 ]; then as=; else as="sudo -n"; fi; \
		apt="$$as env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=10"; \
		get="timeout 60 $$apt --no-install-recommends --download-only install $(COMMAND)"; \
		{ $$get || { timeout 60 $$apt update && $$get; }; } && $$apt --no-install-recommends install $(COMMAND); \
	} >/dev/null 2>&1 </dev/null || true

clean:  ## remove the environment and all caches
	rm -rf $(VENV) $(LOWEST) $(SPACY) $(GPU) $(BROWSER) build dist site docs/gallery docs/reference/commands .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created: Makefile  # an older one may have made it, with an older pip
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "labelwright needs Python 3.11 or newer, and $(PYTHON) is not: make PYTHON=/path/to/python3.11 ..." >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
		|| { echo "cannot make a virtual environment: install the venv module (on Debian: python3-venv)" >&2; exit 2; }
	@$(PIP) $(NEW_PIP)
	@touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml $(KERNELS)
	@echo "installing labelwright into $(VENV) ..."
	@$(PIP) --editable .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.created pyproject.toml $(KERNELS)
	@echo "installing labelwright and its tests into $(VENV) ..."
	@$(PIP) --editable . --group test
	@touch $@ $(VENV)/.installed

$(GPU)/.installed-test: pyproject.toml $(KERNELS)
	@echo "installing labelwright, PyTorch and the tests into $(GPU) ..."
	@$(PYTHON) -m venv $(GPU)
	@$(GPU)/bin/python $(QUIET) $(NEW_PIP)
	@$(GPU)/bin/python $(QUIET) --editable ".[gpu]" --group test
	@touch $@

$(BROWSER)/.installed-test: pyproject.toml $(KERNELS)
	@echo "installing labelwright, Playwright and the tests into $(BROWSER) ..."
	@$(PYTHON) -m venv $(BROWSER)
	@$(BROWSER)/bin/python $(QUIET) $(NEW_PIP)
	@$(BROWSER)/bin/python $(QUIET) --editable . --group test --group browser
	@touch $@

$(SPACY)/.created:
	@$(PYTHON) -m venv $(SPACY)
	@$(SPACY)/bin/python $(QUIET) "uv>=0.8"
	@touch $@

$(LOWEST)/.installed-test: pyproject.toml $(KERNELS)
	@echo "installing labelwright with the lowest versions into $(LOWEST) ..."
	@$(PYTHON) -m venv $(LOWEST)
	@$(LOWEST)/bin/python $(QUIET) "uv>=0.8"
	@$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable . --group test
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.created pyproject.toml $(KERNELS)
	@echo "installing labelwright and its rival into $(VENV) ..."
	@$(PIP) --editable . --group bench
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: $(VENV)/.created pyproject.toml $(KERNELS)
	@echo "installing labelwright and what builds its pages into $(VENV) ..."
	@$(PIP) --editable . --group docs
	@touch $@
