# make run    set up a virtual environment, then train the example on two processes
# make test   set up the test tools, then run every check and test that needs no system package

# the tests start hundreds of interpreters: each would compile every module again
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?= $(shell tools/find-python)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
PACKAGES := primus-core primus-backend-megatron primus-backend-torchtitan primus-preflight primus-launchers
METADATA := constraints.txt $(PACKAGES:=/pyproject.toml)
EXAMPLE ?= examples/llama-tiny.yaml

.PHONY: help run setup test test-cluster lint unit benchmarks accuracy clean

help:
	@sed -n 's/^# //p' Makefile

run: setup
	$(BIN)/primus run $(EXAMPLE)

setup: $(VENV)/.installed

$(VENV)/bin/python:
	@test -n "$(PYTHON)"
	$(PYTHON) -m venv $(VENV)

# megatron-core declares Python 3.12 and newer, but ships wheels that work on 3.11
$(VENV)/.installed: $(METADATA) | $(VENV)/bin/python
	$(PIP) --constraint constraints.txt torch
	$(PIP) --constraint constraints.txt --editable "primus-core[data]" --editable "primus-backend-megatron[runtime]" \
	  --editable "primus-backend-torchtitan[runtime]" --editable primus-preflight --editable primus-launchers
	$(PIP) --constraint constraints.txt --no-deps --ignore-requires-python megatron-core
	@touch $@

$(VENV)/.tested: requirements-test.txt $(VENV)/.installed
	$(PIP) --constraint constraints.txt --requirement requirements-test.txt
	@touch $@

test: lint unit

lint: $(VENV)/.tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

unit: $(VENV)/.tested
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "not slow and not cluster" --numprocesses 2 --dist worksteal

test-cluster: $(VENV)/.tested
	tools/system-packages
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "slow or cluster" --numprocesses 2 --dist loadfile --no-loadscope-reorder

# figures of this machine; not part of the tests
benchmarks: $(VENV)/.tested
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/config.py
	$(BIN)/python benchmarks/projection.py
	$(BIN)/python benchmarks/logging_cost.py
	$(BIN)/python benchmarks/overhead.py megatron
	$(BIN)/python benchmarks/overhead.py torchtitan

# compares projections with what the libraries do and writes docs/accuracy.md, which tells how long each group takes:
# 50 minutes of one core, 2 GB at most. One group again: python -m tools.accuracy --rows DIR [WORD of its title]
accuracy: $(VENV)/.tested
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.accuracy

clean:
	rm -rf $(VENV) output dist
