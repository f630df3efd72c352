# `make demo` and `make test` need only Python 3.11+ and, on anything but Debian as root, Java 17+.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint bench java clean

demo: $(STAMP) java
	$(BIN)/statemigrate demo

test: $(STAMP) java
	$(BIN)/python -m pytest $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP) java
	$(BIN)/python -m benchmarks

java:
	@PYTHON=$(PYTHON) sh scripts/ensure-java.sh

$(STAMP): pyproject.toml
	$(PYTHON) scripts/check_python.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
