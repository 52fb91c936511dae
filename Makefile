# labelwright: everything happens in .venv; nothing else on the machine is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet install

.DEFAULT_GOAL := help
.PHONY: help demo test bench clean

help:  ## show this
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1|/' | column -t -s "|" 2>/dev/null \
		|| grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST)

demo: $(VENV)/.installed  ## install, then train and question a tagger on built-in data
	@$(BIN)/labelwright demo

test: $(VENV)/.installed-test  ## install, then lint, types and tests
	@$(BIN)/ruff check --quiet src tests benchmarks
	@$(BIN)/ruff format --check --quiet src tests benchmarks
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -n 2

bench: $(VENV)/.installed-bench  ## install, then measure side by side with CRFsuite
	@$(BIN)/python benchmarks/run.py

clean:  ## remove the environment and all caches
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "labelwright needs Python 3.11 or newer, and $(PYTHON) is not: make PYTHON=/path/to/python3.11 ..." >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
		|| { echo "cannot make a virtual environment: install the venv module (on Debian: python3-venv)" >&2; exit 2; }
	@touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml
	@echo "installing labelwright into $(VENV) ..."
	@$(PIP) --editable .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.created pyproject.toml
	@echo "installing labelwright and its tests into $(VENV) ..."
	@$(PIP) --editable ".[test]"
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: $(VENV)/.created pyproject.toml
	@echo "installing labelwright and its rival into $(VENV) ..."
	@$(PIP) --editable ".[bench]"
	@touch $@ $(VENV)/.installed
