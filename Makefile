# Entry points for development and CI; `make` alone lists them.
SHELL := /bin/sh
PY := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help install demo up down check test test-all test-long bench bench-all lint docs lock

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: ## Build .venv from the lock, fetch the jars, compile the kernels (PYTHON=... picks the interpreter)
	@PYTHON="$(PYTHON)" scripts/install.sh

demo: install ## Start Kafka and Airflow, run real clients and the retention DAG, show what it found, stop
	@$(PY) -m sexton_dev demo

up: install ## Start Kafka and Airflow and leave them running
	@$(PY) -m sexton_dev up

down: ## Stop what `make up` started
	@if [ -x $(PY) ]; then $(PY) -m sexton_dev down; fi

# What a test needs is a marker of it, given by the fixtures that it uses: tests/needs.py, tests/seeds.py.
NEEDING := broker or spark or airflow or browser or postgres
GENERATED := hypothesis or seeded

check: install lint ## Check style, types, and quick examples that need no broker, Spark, Airflow or browser
	$(PY) -m pytest -q -n 2 -m "not ($(NEEDING) or $(GENERATED) or thorough or full)" --at-most 6

test: install lint ## Run everything that matters, with a real broker, Spark and Airflow
	$(PY) -m tests.prepare
	$(PY) -m pytest -q -n 3 -m "not (thorough or full)"

test-all: test ## Run what CI runs: that, then clusters, walks by browser, kills and campaigns
	$(PY) -m pytest -q -n 4 -m "thorough and not full"

test-long: install ## Run what takes minutes each, and random cases in full counts, of a new seed: hours
	$(PY) -m tests.prepare
	$(PY) -m pytest -q -n 3 -m "full or $(GENERATED)" --full

bench: install ## Measure on this machine what the README says: a broker, the kernels, the audit (a quarter of an hour)
	$(PY) -m tests.bench --readme

bench-all: install ## Measure all that docs/performance.md says, and write it there: an hour
	$(PY) -m tests.bench

lint: install ## Check style and types
	$(PY) -m ruff check .
	$(PY) -m mypy

docs: install ## Write the generated pages of docs/: cli.md, settings.md, tables.md
	$(PY) scripts/docs.py

lock: install ## Resolve pyproject.toml again into requirements.txt (UPGRADE=--upgrade takes newer releases)
	.venv/bin/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
		--custom-compile-command "make lock" --quiet $(UPGRADE) --output-file requirements.txt
