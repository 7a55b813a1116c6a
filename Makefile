# Periplus: `make run` shows it, `make test` tests it, `make test-all` runs every test there is. Needs Python ≥ 3.11 and make; everything lands in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
STAMP := $(VENV)/.installed
NODE_STAMP := tests/node/node_modules/.installed
CLIENTS_STAMP := tests/clients/node_modules/.installed
# aider takes 700 MB more: make clients PYTHON_CLIENTS="gptme hermes aider"
PYTHON_CLIENTS ?= gptme hermes

.PHONY: run setup test test-all test-ci node clients quick check docs bench lock lock-clients clean

run: setup
	$(BIN)/periplus tour $(TOUR)

setup: $(STAMP)

# Parts in C are built here as by any `pip install`: what they are made of is named, so that none is older than its source.
$(STAMP): requirements.lock pyproject.toml setup.py $(wildcard src/periplus/base/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Periplus needs Python 3.11 or later; name one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement requirements.lock
	rm -f src/periplus/base/*.so
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/periplus --version
	$(BIN)/python -m compileall -q src
	@touch $(STAMP)

# At most ten minutes on two cores. TEST takes further words for pytest.
test: setup node
	$(PYTEST) --tier test $(TEST)

# All tests, with whole matrices.
test-all: setup node clients
	$(PYTEST) --tier all $(TEST)

# `make test` and a third of the slow tests, chosen by the commit: three commits in a row run them all.
test-ci: setup node clients
	$(PYTEST) --tier ci $(TEST)

# Programs of others that drive the MCP server in tests; without npm, or where it cannot fetch them, those tests are skipped.
node: $(NODE_STAMP)

$(NODE_STAMP): tests/node/package-lock.json
	@if ! command -v npm >/dev/null; then echo "npm is not there: tests that need it are skipped"; \
	elif (cd tests/node && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error); then touch $(NODE_STAMP); \
	else echo "npm could not install tests/node: tests that need it are skipped"; fi

# Real clients that are driven in slow tests, 1.6 GB. Their own programs are called: no script of a package needs to be run.
clients: $(CLIENTS_STAMP) $(PYTHON_CLIENTS:%=tests/clients/python/%/.installed)

$(CLIENTS_STAMP): tests/clients/package-lock.json
	@if ! command -v npm >/dev/null; then echo "npm is not there: tests that need it are skipped"; \
	elif (cd tests/clients && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error); then touch $(CLIENTS_STAMP); \
	else echo "npm could not install tests/clients: tests that need it are skipped"; fi

tests/clients/python/%/.installed: tests/clients/python/%.txt
	@rm -rf tests/clients/python/$*
	@if $(PYTHON) -m venv tests/clients/python/$* && tests/clients/python/$*/bin/python -m pip install --quiet --no-deps --only-binary :all: --require-hashes --requirement $<; then touch $@; \
	else rm -rf tests/clients/python/$*; echo "pip could not install $*: tests that need it are skipped"; fi

# About a minute.
quick: setup
	$(PYTEST) --tier quick $(TEST)

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation as a site, in build/site; a warning is an error.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "The site is in build/site; start at build/site/index.html"

bench: setup
	$(BIN)/python -m bench $(BENCH)

lock: setup
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --generate-hashes --no-header --no-annotate --quiet --output-file requirements.lock

lock-clients: setup
	$(BIN)/python -m pip install --quiet uv
	for one in "gptme gptme==0.35.1" "hermes hermes-agent[mcp]==0.19.0" "aider aider-chat==0.86.2"; do set -- $$one; \
	echo "$$2" | $(BIN)/uv pip compile - --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet --output-file tests/clients/python/$$1.txt || exit 1; done

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
