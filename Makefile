# Every target sets itself up: a fresh machine needs Python (3.10 or newer) and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-long check format types catalog docs bench picture clean

demo: $(STAMP)  ## scan the sample logs and show what is found
	$(BIN)/vlogdiag scan sample_logs --exit-zero

test: $(STAMP)  ## the tests of every day (about three minutes on 2 cores)
	$(BIN)/python -m pytest -q -n 2 -m "not long and not network"

test-long: $(STAMP)  ## the long tests too: torture, floods, healthy logs by the hundred megabytes
	$(BIN)/python -m pytest -q -m "long and not network"

check: $(STAMP) format types  ## format, lint, types, rules, tests
	$(BIN)/vlogdiag rules test
	$(MAKE) test

format: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

catalog: $(STAMP)  ## add vLLM releases that the flag catalogue does not know yet
	$(BIN)/python tools/build_catalog.py

docs: $(STAMP)  ## everything in docs/ and README.md that a command writes
	$(BIN)/python tools/docs.py

picture: $(STAMP)  ## the picture of a report in README.md
	$(BIN)/python tools/screenshot.py sample_logs/kv-cache-too-small.log docs/report.svg --width 100

bench: $(STAMP)  ## speed, as ratios measured in one run
	$(BIN)/python -m tools.bench

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install -q --disable-pip-version-check --editable . --group dev
	touch $(STAMP)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache dist
