# Everything a developer or an operator types. `make help` lists the targets.
PYTHON ?= python3
VENV ?= .venv
DBT_VENV ?= .venv-dbt
BIN := $(VENV)/bin
DATA_DIR ?= data
SERVE_ARGS ?=
PYTEST_ARGS ?=
WORKERS ?= 2
SOAK_MINUTES ?= 60
PACKAGES := pgwire_gateway rewrite catalog
CLIENTS := $(addprefix integration/,alembic dbt django pg_dump pgbench psql/test_descriptions.py sqlalchemy)

.DEFAULT_GOAL := help
.PHONY: help install install-dev install-clients install-dbt serve demo format lint typecheck layers check plans analyses facts \
	test test-unit test-catalog test-spark test-server integration baseline bench bench-endurance soak clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "%-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# Django's tests are in its source distribution only.
$(VENV)/.installed-clients: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[clients]'
	@rm -rf $(VENV)/src/django-*
	$(BIN)/python -m pip download --quiet --disable-pip-version-check -c constraints.txt \
		--no-deps --no-binary django --dest $(VENV)/src django
	@tar -xzf $(VENV)/src/django-*.tar.gz -C $(VENV)/src
	@rm $(VENV)/src/django-*.tar.gz
	@touch $@

# Only makes the JVMs of tests start faster; a Java that cannot write one is as good.
$(VENV)/.class-archive: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.support.class_archive
	@touch $@

# dbt wants other versions of what the gateway is built on.
$(DBT_VENV)/.installed: integration/dbt/constraints.txt
	$(PYTHON) -m venv --clear $(DBT_VENV)
	$(DBT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c $< dbt-core dbt-postgres
	@touch $@

install: $(VENV)/.installed ## Set up the environment that runs the gateway

install-dev: $(VENV)/.installed-dev ## Set up the environment that tests it

install-clients: $(VENV)/.installed-clients ## Set up the clients that are written in Python, and drivers
	@$(BIN)/python -m tests.support.drivers || echo "Without Maven, tests of other databases are skipped."

install-dbt: $(DBT_VENV)/.installed ## Set up dbt in an environment of its own

serve: install ## Start the gateway on 127.0.0.1:5433 with its data in ./data
	@exec $(BIN)/pgwire-gateway serve --data-dir $(DATA_DIR) $(SERVE_ARGS)

demo: install ## Run a self-contained tour on a scratch directory
	@exec $(BIN)/pgwire-gateway demo

format: install-dev ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: install-dev ## Check style and spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell $(PACKAGES) tests docs README.md

typecheck: install-dev ## Check types
	$(BIN)/mypy

layers: install-dev ## Check the direction of imports
	$(BIN)/lint-imports

check: lint typecheck layers ## All static checks

plans: install-dev ## Write anew what statements are compiled to, for review (tests/rewrite/plans)
	$(BIN)/python -m tests.support.plans

analyses: install-dev ## Write anew what PostgreSQL says of the statements that tests of the rule have (tests/rewrite/needs/analyses)
	$(BIN)/python -m tests.support.write_analyses

facts: install-dev ## Write anew what catalog/pg knows of PostgreSQL, from the embedded one
	$(BIN)/python -m tests.support.facts

test: install-clients $(VENV)/.class-archive ## Run all tests but for those that take minutes, in WORKERS processes
	$(BIN)/python -m pytest -m "not exhaustive" -n $(WORKERS) --dist loadfile \
		--no-loadscope-reorder $(PYTEST_ARGS) tests integration

test-unit: install-dev ## Run the tests that need no other process
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not catalog and not spark and not server and not integration" tests

test-catalog: install-dev ## Run the tests on the embedded PostgreSQL
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "catalog and not exhaustive" tests

test-spark: install-dev ## Run the tests on a local Spark
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "spark and not exhaustive" tests

test-server: install-dev ## Run the tests on the whole gateway
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m server tests

integration: install-clients install-dbt ## Run real clients against the gateway, and what takes minutes
	DBT_VENV=$(DBT_VENV) $(BIN)/python -m pytest $(PYTEST_ARGS) integration
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m exhaustive tests

baseline: install-clients install-dbt ## Run the same clients against a plain PostgreSQL
	DBT_VENV=$(DBT_VENV) $(BIN)/python -m pytest --on-plain $(PYTEST_ARGS) $(CLIENTS)

bench: install-dev ## Measure the gateway against PostgreSQL and bare Spark
	$(BIN)/python -m benchmarks

bench-endurance: install-dev ## Watch what PostgreSQL keeps of a tiered table under an hour of small writes
	$(BIN)/python -m benchmarks --only 10

soak: install-dev ## Compare random histories with PostgreSQL for SOAK_MINUTES, with kills in between
	$(BIN)/python -m tests.support.soak --minutes $(SOAK_MINUTES) --kill

clean: ## Remove environments and caches (not the data)
	rm -rf $(VENV) $(DBT_VENV) .mypy_cache .ruff_cache .pytest_cache build dist *.egg-info
