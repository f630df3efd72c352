# `make demo` and `make test` need only Python 3.11+ and, on anything but Debian as root, Java 17+;
# `make test` also Chromium and a C compiler, `make integration` PostgreSQL and Prometheus. On Debian
# as root what is missing is installed, which is said before; NO_INSTALL=1 declines that.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CODEC := $(VENV)/.codec

# Compiled modules are written to `__pycache__` even where the environment forbids it: the tests start
# hundreds of processes, and each would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test long systems integration soak soak-rewrites fuzz rewrites lint wheel codec-wheel \
	docs bench peers compat java chromium compiler postgres prometheus clean

demo: $(STAMP) java
	$(BIN)/statemigrate demo

# A module's tests share what it deploys, and the longest ones stand in the first folders. Three
# processes on two cores: each waits for Spark now and then.
PROCESSES := 3
PARALLEL = -n $(PROCESSES) --dist loadfile --no-loadscope-reorder

# What tests draw at random is the same in every run, unless SEED is given.
SEED ?=
SEEDED = $(if $(SEED),--hypothesis-seed=$(SEED))

test: $(CODEC) java chromium compiler $(VENV)/java/bin/java
	$(BIN)/python -m pytest $(PARALLEL) $(SEEDED) $(ARGS)

# The rest of what needs Spark: pages followed word for word, a cluster, histories at random, orders of
# deployment, and the queries that go on from forks and rewritten checkpoints. PART=2/8 is the second
# of eight parts.
PART ?=
long: $(CODEC) java chromium compiler $(VENV)/java/bin/java
	$(BIN)/python -m pytest -m "long and not rewrites" $(PARALLEL) \
		$(if $(PART),--part $(PART)) $(SEEDED) $(ARGS)

# A broker, a database and file systems for the tests that need real ones, as packages; once.
systems: $(VENV)/.integration java postgres prometheus
	@PYTHONPATH=tests $(BIN)/python -m systems fetch

$(VENV)/.integration: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[integration]'
	touch $@

# The tests that need a broker, a database or file systems; PART=2/8 is the second of eight parts.
integration: PROCESSES := 2
integration: systems $(CODEC) $(VENV)/java/bin/java
	$(BIN)/python -m pytest $(PARALLEL) -m integration tests/integration \
		$(if $(PART),--part $(PART)) $(ARGS)

# Histories at random for so many minutes, one engine a process; SEED repeats what was wrong.
ENGINE ?= embedded
MINUTES ?= 10
soak: $(CODEC) java compiler $(if $(filter s3,$(ENGINE)),systems)
	PYTHONPATH=tests $(BIN)/python -m soak --engine $(ENGINE) --minutes $(MINUTES) \
		$(if $(SEED),--seed $(SEED))

# Each parser of a checkpoint's files, and each writer of text that has names in it, on so many inputs
# made up at random.
EXAMPLES ?= 5000
fuzz: $(CODEC)
	STATEMIGRATE_FUZZ=$(EXAMPLES) $(BIN)/python -m pytest $(PARALLEL) tests/hostile $(ARGS)

# The rest of what rewrites and forks can change, and so many rewrites at random.
REWRITES ?= 100
rewrites: $(CODEC) java compiler $(VENV)/java/bin/java
	STATEMIGRATE_REWRITES=$(REWRITES) $(BIN)/python -m pytest $(PARALLEL) -m rewrites $(ARGS)

# Rewrites whose driver or workers are killed at every file operation, which takes hours.
soak-rewrites: $(CODEC) java compiler $(VENV)/java/bin/java
	$(BIN)/python -m pytest -m soak tests/crash/test_rewrites_ended_anywhere.py $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

wheel: $(STAMP)
	rm -f dist/statemigrate-*.whl
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

# The compiled codec, for this machine's Python.
codec-wheel: $(STAMP) compiler
	rm -f dist/codec/*.whl
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist/codec ./codec

docs: $(STAMP)
	$(BIN)/python scripts/error_pages.py
	$(BIN)/python scripts/describe_architecture.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(CODEC) java
	$(BIN)/python -m benchmarks

# What the embedded engine is compared with by `python -m benchmarks peers`, and nothing else needs.
peers: .venv-peers/.installed

.venv-peers/.installed: benchmarks/peers/requirements.txt
	$(PYTHON) scripts/check_python.py
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --requirement $<
	touch $@

# PySpark before 4.3 leaves its sockets to the garbage collector.
LEAKS := -W default::pytest.PytestUnraisableExceptionWarning

# The suite of Spark's own state on the newest release of each supported line of PySpark (of 4.0 what
# it has: functions and processors over pandas), and
# checkpoints of these and of two older ones, which are rewritten and go on there.
compat: .venv-3.5/.installed .venv-4.0/.installed .venv-4.1/.installed .venv-4.2/.installed \
	.venv-4.3/.installed java
	echo "PySpark 4.0"
	.venv-4.0/bin/python -m pytest $(PARALLEL) $(LEAKS) -m "" -k andas tests/native $(ARGS)
	for line in 4.1 4.2 4.3; do \
		echo "PySpark $$line"; \
		.venv-$$line/bin/python -m pytest $(PARALLEL) $(LEAKS) -m "" tests/native $(ARGS) || exit 1; \
		if [ $$line = 4.3 ]; then lines="3.5 4.0 4.3"; else lines=$$line; fi; \
		STATEMIGRATE_LINES="$$lines" .venv-$$line/bin/python -m pytest $(LEAKS) -m compat \
			tests/compat $(ARGS) || exit 1; \
	done

# This only makes checkpoints and goes on with them, without statemigrate.
.venv-3.5/.installed: .venv-%/.installed: tests/compat/spark-%.txt
	$(PYTHON) scripts/check_python.py
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --requirement $<
	touch $@

.venv-%/.installed: pyproject.toml constraints.txt
	$(PYTHON) scripts/check_python.py
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --upgrade pip
	grep -v -e '^pyspark==' -e '^py4j==' constraints.txt >.venv-$*/constraints.txt
	.venv-$*/bin/python -m pip install --quiet --constraint .venv-$*/constraints.txt \
		--editable '.[dev]' 'pyspark~=$*.0'
	touch $@

java:
	@PYTHON=$(PYTHON) sh scripts/ensure-java.sh

# Made once; where that fails, the tests take the Java that there is, and longer.
$(VENV)/java/bin/java: scripts/quick_spark.py $(STAMP) | java
	@echo "Making Spark start faster for the tests; it takes about a minute, once"
	@$(BIN)/python scripts/quick_spark.py $(VENV)/java >$(VENV)/java.log 2>&1 \
		|| echo "That failed, see $(VENV)/java.log; going on without it"

chromium:
	@sh scripts/ensure-chromium.sh

compiler:
	@PYTHON=$(PYTHON) sh scripts/ensure-compiler.sh

postgres:
	@sh scripts/ensure-postgres.sh

prometheus: $(STAMP)
	@sh scripts/ensure-prometheus.sh $(VENV)/prometheus

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) scripts/check_python.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# With the versions of Cython and setuptools in constraints.txt, and no others.
$(CODEC): $(STAMP) $(filter-out %.c,$(wildcard codec/*.*)) | compiler
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation \
		--no-deps --force-reinstall ./codec
	touch $@

clean:
	rm -rf codec/build codec/*.c codec/*.egg-info
	rm -rf site $(VENV) .venv-* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
