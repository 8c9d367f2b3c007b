# Thin: every target is one command of the kit. `make` lists them.
PYTHON ?= python3
PARAMS ?= params/quick.yaml
SET ?=
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup diagnose audit check lab test lint bench validate cases docs clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'
	@echo '  PARAMS="a.yaml b.yaml" chooses parameter files, SET="section.key=value ..." overrides single values'

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info < (3, 14); sys.exit(0 if ok else "slowstep needs Python 3.11 to 3.13, this is %d.%d; choose one by PYTHON=" % sys.version_info[:2])'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

setup: .venv/.ready  ## make .venv and install everything (the other targets do it themselves)

diagnose: .venv/.ready  ## run all notebooks over PARAMS and write outputs/index.html
	$(BIN)/slowstep diagnose $(PARAMS) $(if $(SET),--set $(SET))

audit: .venv/.ready  ## check the figures reported in PARAMS (parameter files, tables, logs); trains nothing
	$(BIN)/slowstep audit $(PARAMS) $(if $(SET),--set $(SET))

check: .venv/.ready  ## say whether PARAMS can be used; trains nothing
	$(BIN)/slowstep check $(PARAMS) $(if $(SET),--set $(SET))

lab: .venv/.ready  ## open JupyterLab on the notebooks
	$(BIN)/jupyter lab --notebook-dir=. notebooks

test: .venv/.ready  ## run the test suite
	$(BIN)/python -m pytest

lint: .venv/.ready  ## ruff, as the tests run it
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

bench: .venv/.ready  ## print what is timed: probe, start of a trial, time budget of make diagnose
	$(BIN)/python -m bench

validate: .venv/.ready  ## measure how far the verdicts can be trusted (about four hours) and write outputs/validation/
	$(BIN)/python -m bench.validation

cases: .venv/.ready  ## diagnose the five reports' small siblings and write docs/cases.md (about an hour)
	$(BIN)/python -m bench.cases

docs: .venv/.ready  ## write docs/factors.md anew from the catalogue, and the picture of docs/method.md
	$(BIN)/python -m slowstep.factors.page > docs/factors.md
	$(BIN)/python -m bench.method

clean:  ## delete outputs/ and caches, keep .venv
	rm -rf outputs .pytest_cache .ruff_cache build dist lib/*.egg-info
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
