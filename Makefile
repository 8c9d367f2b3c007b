# Thin: every target is one command of the kit. `make` lists them.
PYTHON ?= python3
PARAMS ?= params/quick.yaml
SET ?=
LAB ?=
BIN := .venv/bin
# a mistyped PARAMS would train the example
TYPED := $(foreach name,$(.VARIABLES),$(if $(findstring command line,$(origin $(name))),$(name)))
$(foreach name,$(filter-out PYTHON PARAMS SET LAB CMD,$(TYPED)),$(error $(name): there is no such variable; make takes PARAMS, SET, CMD, LAB and PYTHON))
# what is worked on: a command that trains, or parameter files
WHAT = $(if $(CMD),$(if $(SET),--set $(SET)) -- $(CMD),$(PARAMS) $(if $(SET),--set $(SET)))
# of what pip says, a line for each package that it fetches
PER_PACKAGE := sed -un -e '/\.metadata/d' -e 's/^ *\(Downloading\|Using cached\) /  \1 /p' -e 's/^\(Installing\) collected.*/  \1 them/p'
BESIDE := --numprocesses logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup diagnose measure report audit check lab test test-fast test-all lint bench validate cases gallery docs clean clean-outputs

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'
	@echo '  CMD="python train.py --lr 1e-4" diagnoses a command that trains, in place of PARAMS'
	@echo '  PARAMS="a.yaml b.yaml" chooses parameter files, SET="section.key=value ..." overrides single values'

.venv/.ready: SHELL := bash
.venv/.ready: .SHELLFLAGS := -o pipefail -c
.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info < (3, 14); sys.exit(0 if ok else "slowstep needs Python 3.11 to 3.13, this is %d.%d; choose one by PYTHON=" % sys.version_info[:2])'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --progress-bar off --constraint constraints.txt --editable '.[dev]' | $(PER_PACKAGE)
	touch $@

setup: .venv/.ready  ## make .venv and install everything (the other targets do it themselves)

diagnose: .venv/.ready  ## run all notebooks over PARAMS and write outputs/index.html
	$(BIN)/slowstep diagnose $(WHAT)

measure: .venv/.ready  ## measure the same without Jupyter, and print the verdicts
	$(BIN)/slowstep measure $(WHAT)

report: .venv/.ready  ## draw the reports in outputs/ again from their records
	$(BIN)/slowstep report

audit: .venv/.ready  ## check the figures reported in PARAMS (a case, or your files, tables, logs); trains nothing
	$(BIN)/slowstep audit $(if $(filter file,$(origin PARAMS)),params/case_000.yaml,$(PARAMS)) $(if $(SET),--set $(SET))

check: .venv/.ready  ## say whether PARAMS can be used; trains nothing
	$(BIN)/slowstep check $(WHAT)

lab: .venv/.ready  ## open JupyterLab on the notebooks (LAB="--allow-root --no-browser" adds options of its own)
	$(BIN)/jupyter lab --notebook-dir=. --LabApp.default_url=/lab/tree/notebooks/start.ipynb $(LAB)

test: .venv/.ready  ## run the test suite (about 12 minutes on two cores)
	$(BIN)/python -m pytest $(BESIDE) -m "not exhaustive"

test-fast: .venv/.ready  ## run the tests that start no trial and no browser (a minute)
	$(BIN)/python -m pytest $(BESIDE) -m "not exhaustive and not trials and not browser"

test-all: .venv/.ready  ## run every test: those of `make test`, and each example of each factor
	$(BIN)/python -m pytest $(BESIDE)

lint: .venv/.ready  ## ruff, as the tests run it
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

bench: .venv/.ready  ## time the probe, the start of a trial, an audit and make diagnose; print it, and write bench/results/
	$(BIN)/python -m bench

validate: .venv/.ready  ## measure how far the verdicts can be trusted (about four hours) and write outputs/validation/
	$(BIN)/python -m bench.validation

cases: .venv/.ready  ## diagnose the five reports' small siblings and write docs/cases.md (about an hour)
	$(BIN)/python -m bench.cases

gallery: .venv/.ready  ## measure docs/gallery/ anew: the example, a script of one's own, an audit (about a quarter of an hour)
	$(BIN)/python -m bench.gallery

docs: .venv/.ready  ## write docs/factors.md anew from the catalogue, and the picture of docs/method.md
	$(BIN)/python -m bench.factors_page > docs/factors.md
	$(BIN)/python -m bench.method

clean:  ## delete caches and what was built, keep .venv and outputs/
	rm -rf .pytest_cache .ruff_cache build dist lib/*.egg-info
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

clean-outputs:  ## delete outputs/: every record of hours of measuring, and every report
	rm -rf outputs
