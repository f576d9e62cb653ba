# `make` alone shows what there is.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
ARGS ?=
JOBS ?= 3
VERSIONS ?= 1.34.4 1.37.2

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help binaries check test versions e2e soak chaos charts image image-lock demo bench clusters lock clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo "Variables: PYTHON, KUBERNETES_VERSION, KUBECTL_VERSION (test), VKUBELET_CACHE, ARGS (test, bench), JOBS (test), MAPPING and EXIT (demo), QUICK (bench)"

# Made anew when it's missing, doesn't run, or is of too old a Python.
define make_venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
  echo "error: Python 3.11 or newer is needed, and $(PYTHON) is" \
    "$$($(PYTHON) --version 2>&1 | head -n 1); name another: make PYTHON=/path/to/python3.12" >&2; \
  exit 1; }
@$(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
  echo "making $(VENV) with $$($(PYTHON) --version)"; $(PYTHON) -m venv --clear $(VENV); }
endef

$(INSTALLED): pyproject.toml requirements-lock.txt
	$(make_venv)
	@echo "installing the project and its tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements-lock.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m pip check >$(VENV)/check.log || { cat $(VENV)/check.log; \
	  echo "error: requirements-lock.txt isn't up to date: make lock" >&2; exit 1; }
	@touch $@

binaries: $(INSTALLED) ## Build the control plane, kubectl and what tests need beside, unless they are there
	@$(BIN)/python -m tests.cluster.binaries
	@$(BIN)/python -m tests.cluster.metrics_server
	@$(BIN)/python -m tests.cluster.vk_suite.program
	@$(BIN)/python -m tests.cluster.helm
	@$(BIN)/python -m tests.cluster.kwok

check: $(INSTALLED) ## Format, lint, types, layers
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

test: binaries ## Unit and cluster tests; ARGS="-k name tests/folder" for some of them
	$(BIN)/python -m pytest --ignore=tests/e2e --numprocesses=$(JOBS) --dist=loadgroup $(ARGS)

versions: $(INSTALLED) ## Streams between kubectl and API servers of each of VERSIONS
	@for servers in $(VERSIONS); do for kubectl in $(VERSIONS); do \
	  export KUBERNETES_VERSION=$$servers KUBECTL_VERSION=$$kubectl; \
	  echo "API servers $$servers, kubectl $$kubectl"; \
	  $(BIN)/python -m tests.cluster.binaries >/dev/null && \
	    $(BIN)/python -m pytest -q tests/cluster/streaming $(ARGS) || exit 1; \
	done; done

e2e: binaries ## Tests against real kubelets and containerd, with image and charts; needs root
	@$(BIN)/python -m tests.e2e.binaries
	$(BIN)/python -m pytest tests/e2e $(ARGS)

soak: binaries ## Half an hour of pods, logs and commands: what is left; SOAK_SECONDS, QUICK=1
	@$(BIN)/python -m tests.bench soak

chaos: binaries ## Faults of every kind while pods come and go; CHAOS_SECONDS=3600, CHAOS_SEED=1
	CHAOS_SECONDS=$${CHAOS_SECONDS:-600} CHAOS_SEED=$${CHAOS_SEED:-$$RANDOM$$$$} \
	  $(BIN)/python -m pytest -s tests/cluster/chaos

charts: binaries ## Write the charts' schemas, test the charts, package them into dist
	@$(BIN)/python -m tests.charts
	$(BIN)/python -m pytest tests/charts $(ARGS)

image: $(INSTALLED) ## Build the container image into dist, without a container engine; needs Debian 12
	@$(BIN)/python -m image build

image-lock: $(INSTALLED) ## Pin anew what is in the image: what Debian offers now, and requirements-lock.txt
	@$(BIN)/python -m image lock

demo: binaries ## Two clusters, a virtual node and a pod across; EXIT=1 ends by itself
	@$(BIN)/python -m tests.demo

bench: binaries ## Measure what docs/performance.md promises; QUICK=1 for less, ARGS=nodes for some
	@$(BIN)/python -m tests.bench $(ARGS)

clusters: binaries ## Start a home and a remote cluster and keep them until Ctrl-C
	@$(BIN)/python -m tests.cluster.up

lock: ## Write requirements-lock.txt anew; ARGS=--upgrade for newer versions
	$(make_venv)
	@$(BIN)/python -m pip install --quiet pip-tools==7.6.2
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/python -m piptools compile --quiet --generate-hashes \
	  --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	  --no-emit-options --output-file requirements-lock.txt $(ARGS) pyproject.toml requirements-dev.txt

clean: ## Remove what make made in this folder (the built Kubernetes stays in its cache)
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
