# Two commands set everything up on a machine with Python 3.11 to 3.13, make and git: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Of thousands of modules few are ever imported; Python compiles those that are, once.
INSTALL := $(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt

unexport PYTHONDONTWRITEBYTECODE  # the tests start hundreds of processes, and each would compile all modules again

.PHONY: demo docs picture test test-core test-fast test-memory test-work test-browser test-cluster test-objects test-export test-ablate test-engine kernels lint style types collected tests coverage wheel wheel-compiled bench clean fuzz

PACKAGES := $(patsubst %/pyproject.toml,%,$(wildcard packages/*/pyproject.toml))

$(VENV)/base: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "Gristmill needs Python 3.11, 3.12 or 3.13, and $(PYTHON) is none of them. Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV)"
	@$(INSTALL) 'setuptools>=77'  # once, and not in a new environment for each of our packages
	@$(INSTALL) --no-build-isolation --editable .
	@touch $@

$(VENV)/dev: $(VENV)/base $(PACKAGES:%=%/pyproject.toml)
	@$(INSTALL) --no-build-isolation --editable '.[dev]' $(PACKAGES:%=--editable %)
	@touch $@

demo/inputs/truth.json: | $(VENV)/base
	@rm -rf demo/inputs
	@$(BIN)/python -m gristmill.kernels & $(BIN)/python -m demo build demo/inputs  # compiles on the other core

demo: $(VENV)/base demo/inputs/truth.json
	$(BIN)/gristmill run recipes/demo.yaml
	@$(BIN)/python -m demo score recipes/demo.yaml demo/inputs
	@echo
	@echo "Try next:"
	@echo "  What was dropped: $(BIN)/gristmill funnel recipes/demo.yaml"
	@echo "  Near duplicates:  $(BIN)/gristmill clusters recipes/demo.yaml"
	@echo "  A training step:  $(BIN)/gristmill sample recipes/demo.yaml --step 3900"

picture: demo  # of the README
	$(BIN)/python -m demo picture recipes/demo.yaml docs/demo.svg

# The documentation as a static site in build/site; a broken link or anchor is an error. Neither demo nor test installs its builder.
$(VENV)/docs: $(VENV)/base
	@$(INSTALL) --no-build-isolation --editable '.[docs]'
	@touch $@

docs: $(VENV)/docs
	@$(BIN)/python docs/site.py write build/docs
	@$(BIN)/zensical build --config-file mkdocs.yml --clean --strict
	@$(BIN)/python docs/site.py check build/site
	@echo "Open build/site/index.html, or serve it with its search: $(BIN)/python -m http.server --directory build/site"

lint: style types

style: $(VENV)/dev
	$(BIN)/ruff check src packages tests bench fuzz demo docs/site.py
	$(BIN)/ruff format --check src packages tests bench fuzz demo docs/site.py

types: $(VENV)/dev
	$(BIN)/mypy

kernels: $(VENV)/base
	@PYTHONPATH=src $(BIN)/python -m gristmill.kernels  # whatever is being installed meanwhile

# Python and pytest compile the modules of the tests, once and not in every process; pytest reports faults later.
collected: style
	@$(BIN)/pytest --collect-only >/dev/null 2>&1 || true
	@PYTHONPATH=src $(BIN)/python -m gristmill.kernels  # on this core, too: those that the other process has not begun

test: $(VENV)/base
	@$(MAKE) --no-print-directory --jobs 2 kernels collected  # before two processes come to the same kernels
	@$(MAKE) --no-print-directory --jobs 2 types tests

# PACKAGE=pdf tests one package; make test-core tests the core alone.
tests: $(VENV)/dev
	$(BIN)/pytest $(if $(PACKAGE),packages/$(PACKAGE),) -n 4 --dist worksteal  # on two cores, beside mypy: many tests mostly wait

test-core: $(VENV)/dev
	$(BIN)/pytest tests -n 4 --dist worksteal

test-fast: $(VENV)/dev
	EXAMPLES=25 $(BIN)/pytest -m 'not slow' -n 2 --dist worksteal

# Which lines the fast tests run, page by page in build/coverage. Compiled kernels and worker processes are not seen.
# pytest-cov is not installed for other targets: Numba imports `coverage` in every process if it finds it.
coverage: $(VENV)/dev
	$(INSTALL) pytest-cov
	EXAMPLES=25 $(BIN)/pytest -m 'not slow' -n 2 --dist worksteal --cov --cov-report=term --cov-report=html:build/coverage

# Executors of clusters alone: Ray on two nodes, and Slurm where its packages are (apt-get install slurm-wlm munge).
test-cluster: $(VENV)/dev
	$(BIN)/pytest packages/ray/tests packages/slurm/tests tests/engine/test_executors.py

# The explorer in a real browser: installs Playwright, and needs Chromium (apt-get install chromium).
test-browser: $(VENV)/dev
	$(INSTALL) playwright
	$(BIN)/pytest packages/explore/tests/test_browser.py

# Ablations: trains small models, so it installs torch (the build for CPUs).
test-ablate: $(VENV)/dev
	$(INSTALL) torch
	$(BIN)/pytest packages/ablate/tests tests/loader/test_torch.py

# Generated text from a real engine, with a tiny model of random weights. It is in an environment apart.
ENGINE := .venv-engine
test-engine: $(VENV)/dev
	test -x $(ENGINE)/bin/python || $(PYTHON) -m venv $(ENGINE)
	test -x $(ENGINE)/bin/transformers || $(ENGINE)/bin/python -m pip install --quiet 'transformers[serving]' torch
	ENGINE=$(CURDIR)/$(ENGINE)/bin/transformers $(BIN)/pytest packages/generate/tests/test_engine.py

# Object stores on two servers more than our own. Moto's is in an environment apart: it needs an older dateutil than we pin.
SERVERS := .venv-s3
test-objects: $(VENV)/dev
	test -x $(SERVERS)/bin/python || $(PYTHON) -m venv $(SERVERS)
	test -x $(SERVERS)/bin/moto_server || $(SERVERS)/bin/python -m pip install --quiet 'moto[server]'
	test -x $(SERVERS)/node_modules/.bin/s3rver || ! command -v npm || npm install --silent --prefix $(SERVERS) s3rver
	PATH=$(CURDIR)/$(SERVERS)/bin:$(CURDIR)/$(SERVERS)/node_modules/.bin:$$PATH $(BIN)/pytest tests/objects

# Exports, read by the libraries that others read them with; none of them is ours.
READERS := .venv-export
test-export: $(VENV)/dev
	test -x $(READERS)/bin/python || $(PYTHON) -m venv $(READERS)
	$(READERS)/bin/python -m pip install --quiet --disable-pip-version-check datasets duckdb mlcroissant pandas polars
	EXPORT_READERS=$(CURDIR)/$(READERS)/bin/python $(BIN)/pytest tests/cli/test_export.py

# Tests of kernels and stages where memory bites (tests/kernels/test_memory.py); takes about half an hour.
WATCHED := tests/kernels tests/stages --ignore tests/kernels/test_memory.py
test-memory: $(VENV)/dev
	for side in behind before; do \
	  FENCE=$$side MALLOC_PERTURB_=165 MALLOC_MMAP_THRESHOLD_=4096 \
	    $(BIN)/pytest -p tests.kernels.fenced_memory $(WATCHED) || exit 1; \
	done
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/checked \
	  $(BIN)/pytest -p tests.kernels.checked_memory -m 'not slow' $(WATCHED)

# The linear-time law of every stage, with the work inside of compiled kernels; compiles them anew the first time.
test-work: $(VENV)/dev
	NUMBA_CACHE_DIR=$(VENV)/counted $(BIN)/pytest -p tests.kernels.counted_work tests/laws/test_every_stage_is_linear.py

# Every target for so many seconds; what breaks something lies in fuzz/findings afterwards.
FUZZ_SECONDS ?= 60
FUZZ_JOBS ?= 2
fuzz: $(VENV)/dev
	$(BIN)/python -m fuzz all --seconds $(FUZZ_SECONDS) --jobs $(FUZZ_JOBS)

# What a release uploads. Setuptools adds whatever is left in build/lib, so nothing may be left there.
wheel: $(VENV)/dev
	rm -rf dist build/lib build/bdist.* packages/*/build
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist . $(PACKAGES:%=./%)
	@ls dist

# The same with compiled kernels for this architecture and this Python, so that a first run does not compile.
wheel-compiled: $(VENV)/dev
	rm -rf dist build/lib build/bdist.* build/kernels
	mkdir -p -m 700 build/kernels
	NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= NUMBA_CACHE_DIR=build/kernels $(BIN)/python -m gristmill.kernels
	$(BIN)/python -c 'from pathlib import Path; from gristmill.kernels import shipped; assert shipped.pack(Path("build/kernels"))'
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist . \
	  --config-settings=--build-option=--plat-name=manylinux_2_28_$$(uname -m) \
	  --config-settings=--build-option=--python-tag=$$($(BIN)/python -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
	rm src/gristmill/kernels/compiled-*.zip
	@ls dist

bench: $(VENV)/dev
	$(BIN)/python -m bench all

clean:
	rm -rf demo/inputs demo/store demo/audit .cache .mypy_cache .ruff_cache build dist packages/*/build $(SERVERS) $(READERS)
