# Every target sets up its own virtual environment first; `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
BENCH := .venv-bench/bin
OLDEST := .venv-oldest/bin
LOCKING := .venv-lock/bin
SITE := .venv-docs/bin

.DEFAULT_GOAL := help
.PHONY: help test test-all check unit thorough oldest demo compare tour docs bench trust mutants lock audit clean

# Compiled modules are kept, whatever the shell says: without them each process of a test compiles everything again.
export PYTHONDONTWRITEBYTECODE :=

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

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

test: check unit  ## all checks and the tests of the product, with few examples of each property
test-all: thorough oldest  ## beside these: many examples, the pages in a browser, Spark, kills, damaged files, the oldest versions

check: .venv/installed  ## formatting, lint, types and import directions
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports

PYTEST := -m pytest --quiet --numprocesses 2 --dist loadfile --no-loadscope-reorder

unit: .venv/installed  ## the tests of the product alone
	$(BIN)/python $(PYTEST) -m 'not harness and not trust' --ignore tests/harness --hypothesis-profile few

thorough: .venv/installed  ## what `unit` leaves out, and properties with many examples
	$(BIN)/python $(PYTEST) -m '(harness or property) and not trust' tests

.venv-oldest/installed: pyproject.toml requirements/oldest.txt
	$(PYTHON) -m venv .venv-oldest
	$(OLDEST)/python $(LOCKED) requirements/oldest.txt
	$(OLDEST)/python $(PIP) --no-deps --editable .
	@touch $@

CORE := counts/test_counting.py counts/test_files.py models/test_model.py test_sklearn.py test_golden.py
# What is learned by a search of SciPy differs by some millionths from one version to another.
oldest: .venv-oldest/installed  ## five files of tests with the oldest versions that the core works with
	$(OLDEST)/python -m pytest --quiet --hypothesis-profile few -m 'not harness and not trust' -W ignore::DeprecationWarning \
		-k 'not comparison and not experiment' --deselect 'tests/test_golden.py::test_numbers_are_as_they_were[calibrated]' \
		$(CORE:%=tests/%)

demo: .venv/paper  ## the paper's experiment, with a report
	$(BIN)/raregram reproduce --force --out build/reproduce

compare: .venv/paper  ## fiction against news, and the addresses of one party against those of the other, with a page each
	$(BIN)/raregram fetch brown --quiet
	$(BIN)/raregram fetch sotu --quiet
	$(BIN)/raregram compare "$$($(BIN)/raregram fetch brown --quiet)" --by genre --names fiction,news --out build/compare/fiction-news
	$(BIN)/raregram compare "$$($(BIN)/raregram fetch sotu --quiet)" --by party --names Democratic,Republican -n 1-3 \
		--out build/compare/parties

tour: .venv/paper  ## fit, rank and explain on a corpus whose true ratios are known
	$(BIN)/python demo/run.py build/demo

# What lays the site out; its pages are run in the environment for development.
.venv-docs/installed: requirements/docs.txt
	$(PYTHON) -m venv .venv-docs
	$(SITE)/python $(LOCKED) requirements/docs.txt
	@touch $@

docs: .venv/installed .venv-docs/installed  ## the site in build/docs/site: runs the tutorials and draws the gallery
	$(BIN)/python -m handbook build/docs
	cd build/docs && ../../$(SITE)/zensical build --clean --strict
	$(BIN)/python -m handbook.check build/docs/site

# The environment with the rivals; those that cannot be installed are listed with the reason.
.venv-bench/rivals.json: pyproject.toml requirements/build.txt requirements/rivals.txt benchmarks/install.py
	$(PYTHON) -m benchmarks.install .venv-bench

bench: .venv-bench/rivals.json .venv/installed  ## everything measured side by side, also rivals (an hour); goes on where it was stopped
	@for program in fasttext wrk cc; do command -v $$program >/dev/null || \
		echo "There is no $$program, so what needs it is not measured, e.g.: apt-get install fasttext wrk gcc"; done
	-@$(BIN)/raregram fetch stanford-ner --quiet
	$(BIN)/python -m benchmarks

trust: .venv/installed .venv-bench/rivals.json  ## before a release: rivals, a cluster, an hour of load, mutants (half a day)
	$(BIN)/python $(LOCKED) requirements/trust.txt
	-@$(BIN)/raregram fetch stanford-ner --quiet
	$(BIN)/python $(PYTEST) -m trust tests
	$(BIN)/python -m reliability.crashes
	$(BIN)/python -m reliability.fuzz
	$(BIN)/python -m reliability.giants
	$(BIN)/python -m reliability.versions
	$(BIN)/python -m reliability.soak
	$(BIN)/python -m reliability.fuzz --guided
	$(MAKE) mutants

mutants: .venv/installed  ## change the core in thousands of small ways and see whether the tests notice; SAMPLE=40: of each module
	$(BIN)/python $(LOCKED) requirements/trust.txt
	$(BIN)/python -m reliability.mutants $(SAMPLE)

.venv-lock/installed: requirements/lock.txt
	$(PYTHON) -m venv .venv-lock
	$(LOCKING)/python $(LOCKED) requirements/lock.txt
	@touch $@

PIN = $(LOCKING)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet
lock: .venv-lock/installed  ## pin what pyproject.toml asks for; NEWEST=--upgrade takes the newest of everything
	$(PIN) $(NEWEST) --group lock --output-file requirements/lock.txt
	$(PIN) $(NEWEST) --group build --output-file requirements/build.txt
	$(PIN) $(NEWEST) pyproject.toml --group build --output-file requirements/core.txt
	$(PIN) $(NEWEST) pyproject.toml --group build --extra test --output-file requirements/dev.txt
	$(PIN) $(NEWEST) pyproject.toml --group build --extra paper --constraint requirements/dev.txt --output-file requirements/paper.txt
	$(PIN) $(NEWEST) --group npm --output-file requirements/npm.txt
	$(PIN) $(NEWEST) --group docs --output-file requirements/docs.txt
	$(PIN) $(NEWEST) --group trust --constraint requirements/dev.txt --output-file requirements/trust.txt
	$(PIN) $(NEWEST) pyproject.toml --group build --extra paper --group rivals --output-file requirements/rivals.txt
	$(PIN) pyproject.toml --group build --extra sklearn --group oldest --resolution lowest-direct --output-file requirements/oldest.txt

audit: .venv-lock/installed  ## ask for known vulnerabilities of everything that is pinned for development
	$(LOCKING)/pip-audit --require-hashes --disable-pip --requirement requirements/dev.txt

clean:  ## remove the environments and everything that was built
	rm -rf .venv .venv-* build dist mutants .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
