# Everything is set up on demand in .venv; needs only python3 (3.11 or newer) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SAMPLE := sample_logs/tee-decoy-data-error/logs

.PHONY: demo test check calibrate format lint types layers docs slow clean

$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(VENV)/.run  ## set up and diagnose a sample
	$(BIN)/correlator diagnose $(SAMPLE)

test: $(VENV)/.dev  ## set up and run the tests
	$(BIN)/python -m pytest -n 2

slow: $(VENV)/.dev  ## long campaigns
	$(BIN)/python -m pytest -n 2 -m slow

calibrate: $(VENV)/.dev  ## refit the confidence model: make calibrate CORPUS=FOLDER (labelled incidents)
	for size in 8 64 256; do $(BIN)/python -m tests.simulator build/simulated/$$size --count $$((1200 / size + 7)) --size $$size --seed 5000; done
	$(BIN)/python -m tests.calibration $(CORPUS) build/simulated --write

format: $(VENV)/.dev
	$(BIN)/ruff format correlator parsers tests

lint: $(VENV)/.dev
	$(BIN)/ruff format --check correlator parsers tests
	$(BIN)/ruff check correlator parsers tests
	$(BIN)/codespell correlator parsers rules/failures docs README.md CONTRIBUTING.md CHANGELOG.md

types: $(VENV)/.dev
	$(BIN)/pyright

layers: $(VENV)/.dev
	$(BIN)/lint-imports

docs: $(VENV)/.dev  ## the documentation names what exists (also part of the tests)
	$(BIN)/python -m pytest -q tests/test_docs.py

check: lint types layers test ## everything that a change must pass

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache
