# `make demo` shows the main job, `make test` is what CI runs. Each does all of its own set-up:
# it needs only Python 3.11+, make and a package index.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOCAL := $(VENV)/.local
JOBS ?= auto
COMPILE := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate
# All but `local`, which compiles for minutes: constraints/local.txt.
EXTRAS := tiktoken testing tools openai anthropic google mcp otel valkey

.PHONY: help demo test check docs bench soak local format lock clean

help: ## list the commands
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

$(READY): constraints/dev.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "jaato needs Python 3.11 or newer; try make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(READY)

demo: $(READY) ## a collection of a generated session, before and after
	$(BIN)/jaato demo

check: $(READY) ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: check docs ## everything CI runs: the checks, the docs that run, the tests
	$(BIN)/python -m pytest -n $(JOBS) tests

# In one process: the blocks of a page build on each other.
docs: $(READY) ## the README and the docs, run
	$(BIN)/python -m pytest README.md docs

bench: $(READY) ## the "must hold" figures, as ratios within one run
	$(BIN)/python bench/collector.py
	$(BIN)/python -m bench.engine
	$(BIN)/python -m bench.stash
	$(BIN)/python -m bench.segments

soak: $(READY) ## 200 000 histories, 10 000 steps, 500 faults, 2 000 kills (half an hour)
	$(BIN)/python -m bench.chaos
	$(BIN)/python -m bench.endurance
	$(BIN)/python -m bench.stash_crash
	$(BIN)/python bench/soak.py

local: $(LOCAL) ## the local model and its server, for their tests (compiles for minutes, once)

# Any CPU with AVX2 runs what is compiled, since pip keeps it for the next machine too. What is for
# pictures is left out, as are the dependencies that pyproject.toml excludes (`--no-deps`).
$(LOCAL): constraints/local-build.txt constraints/local.txt | $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints/local-build.txt
	@echo "compiling llama.cpp, which takes about five minutes where pip has not kept it"
	CMAKE_ARGS="-DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF $$CMAKE_ARGS" $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --require-hashes -r constraints/local.txt
	touch $(LOCAL)

format: $(READY) ## format and fix what a tool can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(READY) ## pin every tool and test dependency anew, with hashes
	$(COMPILE) --group dev $(foreach extra,$(EXTRAS),--extra $(extra)) pyproject.toml -o constraints/dev.txt
	$(COMPILE) --group local-build -c constraints/dev.txt -o constraints/local-build.txt
	$(COMPILE) --extra local --group local -c constraints/dev.txt pyproject.toml -o constraints/local.txt

clean: ## remove the environment and every cache
	rm -rf $(VENV) .cache .hypothesis dist
