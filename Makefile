# Every target sets up its own virtual environment first; `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help test check unit demo tour bench clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

test: check unit  ## all checks and all tests

check: .venv/installed  ## formatting, lint, types and import directions
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: .venv/installed  ## the tests alone
	$(BIN)/python -m pytest --quiet

demo: .venv/installed  ## the paper's experiment, with a report
	$(BIN)/raregram reproduce --force --out build/reproduce

tour: .venv/installed  ## fit, rank and explain on a corpus whose true ratios are known
	$(BIN)/python demo/run.py build/demo

bench: .venv/installed  ## speed and size, measured side by side
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/counting.py
	$(BIN)/python benchmarks/experiment.py

clean:  ## remove the environment and everything that was built
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
