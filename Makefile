# Two commands matter: `make demo` and `make test`. Each installs what it needs into .venv, once.
PYTHON ?= python3
BIN := .venv/bin
CORE := .venv/.core
DEV := .venv/.dev
MODELS := .venv/.models
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Two workers; conftest.py gives each of them one thread. worksteal keeps neighbouring tests and their fixtures together.
PYTEST := $(BIN)/python -m pytest -q --numprocesses 2 --dist worksteal

.PHONY: demo test test-slow test-models check format lint types docs clean

demo: $(CORE)
	$(BIN)/timex demo --out demo

test: lint types
	$(PYTEST) -m "not slow" --cov --cov-report=term

test-slow: $(MODELS)
	$(PYTEST) -m slow

# Packages that bound others below the versions pinned here are installed without what they ask for, most of which is not used.
# torchvision, which fastai asks for, would be that of a torch for GPUs.
test-models: $(MODELS)
	$(PIP) deprecated numba                                            # for aeon
	$(PIP) fastcore fastdownload fastprogress fasttransform psutil     # for tsai
	$(PIP) coreforecast pytorch-lightning utilsforecast                # for neuralforecast
	$(PIP) cachetools opencv-python-headless scikit-image              # for Quantus
	$(PIP) --no-deps aeon==1.6.0 fastai==2.8.12 neuralforecast==3.3.0 quantus==0.6.0 tsai==1.0.1
	$(PYTEST) tests/models tests/explainers/test_consumers.py

check: format test

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(DEV)
	$(BIN)/mypy

docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# What a user needs: the package and its dependencies. torch comes first: its version decides what else is downloaded.
$(CORE): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "timex needs Python 3.11 or newer, this is " + sys.version'
	$(PYTHON) -m venv .venv
	$(PIP) torch
	$(PIP) --editable .
	touch $@

# What a contributor needs on top: linters, test runners, Ray and the documentation's tools.
$(DEV): $(CORE)
	$(PIP) --editable '.[dev,docs]'
	touch $@

# The packages whose models the slow tests explain. torch stays as it is.
$(MODELS): $(DEV)
	$(PIP) --editable '.[models]'
	touch $@

clean:
	rm -rf .venv demo site .coverage .pytest_cache .mypy_cache .ruff_cache
