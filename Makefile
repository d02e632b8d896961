# Every target sets up its own virtual environment first; `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
BENCH := .venv-bench/bin
OLDEST := .venv-oldest/bin
LOCKING := .venv-lock/bin

.DEFAULT_GOAL := help
.PHONY: help test check unit oldest demo tour bench trust lock audit clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

# Packages come by version and hash from requirements/, and so does what builds those that come as source.
PIP := -m pip --disable-pip-version-check install --quiet --no-build-isolation
LOCKED := $(PIP) --require-hashes --requirement

# What the experiment needs; npm comes along where there is none.
.venv/paper: pyproject.toml requirements/build.txt requirements/paper.txt requirements/npm.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python $(LOCKED) requirements/build.txt
	$(BIN)/python $(LOCKED) requirements/paper.txt
	$(BIN)/python $(PIP) --no-deps --editable .
	@command -v npm >/dev/null || $(BIN)/python $(LOCKED) requirements/npm.txt
	@touch $@

# What development needs beside it, in the same environment.
.venv/installed: .venv/paper requirements/dev.txt
	$(BIN)/python $(LOCKED) requirements/dev.txt
	@touch $@

test: check unit oldest  ## all checks and all tests

check: .venv/installed  ## formatting, lint, types and import directions
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: .venv/installed .venv-bench/rivals.json  ## the tests alone
	@java -version 2>&1 | grep -qE '"(1[7-9]|[2-9][0-9])' || \
		echo 'There is no Java 17, so the Spark tests are skipped. Install it, e.g.: apt-get install openjdk-17-jre-headless'
	$(BIN)/python -m pytest --quiet --numprocesses 3 --dist loadfile --no-loadscope-reorder

.venv-oldest/installed: pyproject.toml requirements/oldest.txt
	$(PYTHON) -m venv .venv-oldest
	$(OLDEST)/python $(LOCKED) requirements/oldest.txt
	$(OLDEST)/python $(PIP) --no-deps --editable .
	@touch $@

CORE := ratios selection contexts kernels shapes counting counts files numbers versions model sklearn
oldest: .venv-oldest/installed  ## the tests of the core with the oldest versions that it works with
	$(OLDEST)/python -m pytest --quiet --numprocesses 2 --hypothesis-profile few -W ignore::DeprecationWarning \
		$(CORE:%=tests/test_%.py)

demo: .venv/paper  ## the paper's experiment, with a report
	$(BIN)/raregram reproduce --force --out build/reproduce

tour: .venv/paper  ## fit, rank and explain on a corpus whose true ratios are known
	$(BIN)/python demo/run.py build/demo

# The environment with the rivals; those that cannot be installed are listed with the reason.
.venv-bench/rivals.json: pyproject.toml requirements/build.txt requirements/rivals.txt benchmarks/install.py
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

trust: .venv/installed  ## kills, full disks, hostile input, versions and an hour under load (three and a half hours)
	$(BIN)/python $(LOCKED) requirements/trust.txt
	$(BIN)/python reliability/kills.py
	$(BIN)/python reliability/disks.py
	$(BIN)/python reliability/readers.py
	$(BIN)/python reliability/giants.py
	$(BIN)/python reliability/versions.py
	$(BIN)/python reliability/mutants.py
	$(BIN)/python reliability/soak.py
	$(BIN)/python reliability/guided.py

.venv-lock/installed: requirements/lock.txt
	$(PYTHON) -m venv .venv-lock
	$(LOCKING)/python $(LOCKED) requirements/lock.txt
	@touch $@

PIN = $(LOCKING)/uv pip compile --universal --python-version 3.10 --generate-hashes --no-header --no-annotate --quiet
lock: .venv-lock/installed  ## pin what pyproject.toml asks for; NEWEST=--upgrade takes the newest of everything
	$(PIN) $(NEWEST) --group lock --output-file requirements/lock.txt
	$(PIN) $(NEWEST) --group build --output-file requirements/build.txt
	$(PIN) $(NEWEST) pyproject.toml --group build --extra fast --output-file requirements/core.txt
	$(PIN) $(NEWEST) pyproject.toml --group build --extra test --output-file requirements/dev.txt
	$(PIN) $(NEWEST) pyproject.toml --group build --extra paper --constraint requirements/dev.txt --output-file requirements/paper.txt
	$(PIN) $(NEWEST) --group npm --output-file requirements/npm.txt
	$(PIN) $(NEWEST) --group trust --constraint requirements/dev.txt --output-file requirements/trust.txt
	$(PIN) $(NEWEST) pyproject.toml --group build --extra fast --extra paper --group rivals --output-file requirements/rivals.txt
	$(PIN) pyproject.toml --group build --extra fast --extra sklearn --group oldest --resolution lowest-direct --output-file requirements/oldest.txt

audit: .venv-lock/installed  ## ask for known vulnerabilities of everything that is pinned for development
	$(LOCKING)/pip-audit --require-hashes --disable-pip --requirement requirements/dev.txt

clean:  ## remove the environments and everything that was built
	rm -rf .venv .venv-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
