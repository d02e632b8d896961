# Every target sets up its own virtual environment first; `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
BENCH := .venv-bench/bin

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

unit: .venv/installed .venv-bench/rivals.json  ## the tests alone
	@java -version 2>&1 | grep -qE '"(1[7-9]|[2-9][0-9])' || \
		echo 'There is no Java 17, so the Spark tests are skipped. Install it, e.g.: apt-get install openjdk-17-jre-headless'
	$(BIN)/python -m pytest --quiet --numprocesses 2 --dist loadfile

demo: .venv/installed  ## the paper's experiment, with a report
	$(BIN)/raregram reproduce --force --out build/reproduce

tour: .venv/installed  ## fit, rank and explain on a corpus whose true ratios are known
	$(BIN)/python demo/run.py build/demo

# The environment with the rivals; those that cannot be installed are listed with the reason.
.venv-bench/rivals.json: pyproject.toml benchmarks/install.py
	$(PYTHON) benchmarks/install.py .venv-bench

bench: .venv-bench/rivals.json .venv/installed  ## everything measured side by side: rivals, the machine's limit, growth (two hours)
	$(BENCH)/python benchmarks/core.py
	$(BENCH)/python benchmarks/counting.py
	$(BENCH)/python benchmarks/experiment.py
	$(BENCH)/python benchmarks/limit.py
	$(BENCH)/python benchmarks/growth.py
	$(BIN)/python benchmarks/spark.py
	$(BIN)/python benchmarks/serving.py
	$(BENCH)/python benchmarks/contest.py --synthetic

clean:  ## remove the environment and everything that was built
	rm -rf .venv .venv-bench build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
