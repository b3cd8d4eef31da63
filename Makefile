# Everything that a person or a machine does here starts from this file; `make` alone lists it.
SHELL := /bin/sh
PY := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help install demo up down check test bench lint docs lock

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: ## Build .venv from the lock, fetch the jars, compile the kernels (PYTHON=... picks the interpreter)
	@PYTHON="$(PYTHON)" scripts/install.sh

demo: install ## Start Kafka and Airflow, run real clients and the retention DAG, show what it found, stop
	@$(PY) -m sexton.local demo

up: install ## Start Kafka and Airflow and leave them running
	@$(PY) -m sexton.local up

down: ## Stop what `make up` started
	@if [ -x $(PY) ]; then $(PY) -m sexton.local down; fi

CHECKED := tests/archive tests/coordinator tests/ledger tests/log tests/policy tests/records tests/report tests/tables \
	tests/verdicts tests/test_*.py

check: install lint ## Check style, types and what needs no broker, no Spark and no Airflow
	$(PY) -m pytest -q -n 2 $(CHECKED)

test: install lint ## Run everything that CI runs
	$(PY) -m tests.prepare
	$(PY) -m pytest -q -n 3

bench: install ## Measure the kernels and the audit on this machine
	$(PY) -m tests.bench

lint: install ## Check style and types
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m mypy spark_jobs

docs: install ## Write the generated pages of docs/: cli.md, settings.md, tables.md
	$(PY) scripts/docs.py

lock: install ## Resolve pyproject.toml again into requirements.txt (UPGRADE=--upgrade takes newer releases)
	.venv/bin/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
		--custom-compile-command "make lock" --quiet $(UPGRADE) --output-file requirements.txt
