# `make` or `make help` lists what there is. What is missing is set up first, in a virtual environment of its own.

# The first Python of 3.11 or newer that can make virtual environments; or say PYTHON=...
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV ?= .venv
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
DEMO := runs/demo
DEMO_JOBS ?= 3
DEMO_SET ?=
SIZE ?= cpu
JOBS ?= 1
ARGS ?=

TEST_JOBS ?= 2
# the tests of a file share what they have trained
PARALLEL = -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder

BIN := $(VENV)/bin
# what the toolkit needs; what its tests and the book need besides
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
PIP = $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

.PHONY: help demo textbook benchmark torture docs test test-all test-lowest test-package audit mutation lint format figure clean distclean
.DELETE_ON_ERROR:

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- set-up ---------------------------------------------------------------------------------------------------------

$(READY): pyproject.toml constraints.txt
	@$(if $(strip $(PYTHON)),,$(error Python 3.11 or newer with its venv module is needed (on Debian and Ubuntu: \
		apt install python3-venv); if it is elsewhere: make PYTHON=/path/to/python3))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, $(PYTHON) is older")'
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@echo "installing PyTorch (large: minutes)"
	@$(PIP) "$$(grep ^torch== constraints.txt)"
	@echo "installing the toolkit and everything else it needs"
	@$(PIP) --editable .
	@touch $@

$(TOOLS): $(READY)
	@echo "installing what the tests and the book need"
	@$(PIP) --editable '.[dev,docs]'
	@touch $@

# --- experiments ----------------------------------------------------------------------------------------------------
# nmt-experiment keeps what is finished and resumes what was stopped. DEMO_JOBS says how many runs train side by side, one
# thread each. DEMO_SET="training.updates=100 seed=2" overrides options, for runs in another directory: DEMO=runs/trial.

demo: $(READY) data/demo/.ready ## train without attention, Bahdanau's and Luong's on the generated demo language; draw the length-decay figure, write the report
	@$(BIN)/nmt-experiment --config configs/experiments/demo.yaml --output $(DEMO) --jobs $(DEMO_JOBS) $(DEMO_SET:%=--set %)
	@$(BIN)/nmt-report $(DEMO) --gold data/demo/test.align --output $(DEMO)/report.html
	@echo "the figure: $(DEMO)/length_curve.png, with its numbers in .csv and .json"
	@echo "the report: $(DEMO)/report.html, to explore in a browser"
	@echo "translate:  echo 'Your swallow will swim.' | $(BIN)/nmt-translate --model $(DEMO)/bahdanau"

data/demo/.ready data/demo-short/.ready data/demo-verb-final/.ready: scripts/make_demo_corpus.py $(wildcard scripts/demo_language/*.py) | $(READY)
	@$(BIN)/python scripts/make_demo_corpus.py --output $(@D) $(if $(findstring verb-final,$@),--verb-final) \
		$(if $(findstring demo-,$@),--longest 20 --test-per-bin 250)
	@touch $@

# SIZE: cpu, one to three hours a model on one core; or gpu, the widths of the paper. JOBS: runs trained side by side.
figure: $(READY) ## the figures of docs/length-decay.md: train the systems of Bahdanau et al. on Europarl, draw (SIZE=gpu, JOBS=5)
	@$(BIN)/nmt-experiment --config configs/experiments/europarl.yaml --base configs/europarl/$(SIZE).yaml \
		--output runs/length-decay/$(SIZE) --jobs $(JOBS)
	@echo "the figures, with their numbers in .csv and .json: runs/length-decay/$(SIZE)"

textbook: $(READY) data/demo-short/.ready data/demo-verb-final/.ready data/demo/joined.fr ## train what the claims of docs/textbook.md need, judge them, write the page; skips experiments whose data is missing (JOBS=2)
	@for file in configs/experiments/textbook/*.yaml; do \
		missing=; \
		for text in $$(grep -ho 'data/[a-z][^ ,}]*' $$file $$(sed -n 's/^base: //p' $$file)); do \
			[ -e $$text ] || missing="$$missing $$text"; \
		done; \
		if [ "$$missing" ]; then echo "skipping $$file, for lack of$$missing"; continue; fi; \
		NMT_IMPORT=ablations PYTHONPATH=scripts $(BIN)/nmt-experiment --config $$file --jobs $(JOBS) || exit; \
	done
	@NMT_IMPORT=ablations $(BIN)/python scripts/textbook.py
	@$(BIN)/python scripts/reference.py

# for lengths.yaml and joined.yaml of the textbook: pairs of at most 30 words, each alone, and after the one before it
data/demo/joined.fr: data/demo/.ready
	@paste data/demo/train.en data/demo/train.fr | awk -F '\t' -v source=data/demo/joined.en -v target=$@ \
		'split($$1, _, " ") <= 30 && split($$2, _, " ") <= 30 { \
			print $$1 > source; print $$2 > target; \
			if (s) { print s " " $$1 > source; print t " " $$2 > target }; \
			s = $$1; t = $$2 }'

# --- work -----------------------------------------------------------------------------------------------------------

benchmark: $(READY) ## training speed, relative to the matrix products of this CPU (ARGS=... goes to scripts/benchmark.py)
	@$(BIN)/python scripts/benchmark.py $(ARGS)

torture: $(TOOLS) ## fault injection, hostile input and reproducibility, ten times each where chance has a part (ARGS=... goes to pytest)
	@$(BIN)/python -m pytest -n $(TEST_JOBS) tests/torture --times 10 $(ARGS)

docs: $(TOOLS) ## build the book: build/docs/index.html; warnings and dead links are errors (ARGS=... goes to sphinx-build)
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env -d build/doctrees docs build/docs $(ARGS)
	@echo "the book: build/docs/index.html"

test: $(TOOLS) ## all tests except slow ones, TEST_JOBS at a time (2; ARGS=... goes to pytest)
	@$(BIN)/python -m pytest $(PARALLEL) -m "not slow" $(ARGS)

test-all: $(TOOLS) ## all tests
	@$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

test-lowest: $(TOOLS) ## the tests, with the lowest versions of all packages that the project supports
	@$(PYTHON) -m venv $(VENV)-lowest
	@$(BIN)/python scripts/lowest_versions.py > $(VENV)-lowest/constraints.txt
	@$(VENV)-lowest/bin/pip install --quiet --disable-pip-version-check "$$(grep ^torch== constraints.txt)"
	@$(VENV)-lowest/bin/pip install --quiet --disable-pip-version-check -c $(VENV)-lowest/constraints.txt --editable '.[dev]'
	@$(VENV)-lowest/bin/python -m pytest $(PARALLEL) -W ignore::DeprecationWarning $(ARGS)

test-package: $(TOOLS) ## build the package, install it into an empty environment, train and translate from there
	@$(BIN)/python scripts/try_package.py

audit: ## check the packages of constraints.txt for known vulnerabilities (asks the package index; ARGS=... goes to pip-audit)
	@$(PYTHON) -m venv $(VENV)-audit
	@$(VENV)-audit/bin/pip install --quiet --disable-pip-version-check pip-audit
	@$(VENV)-audit/bin/pip-audit --no-deps --disable-pip --strict -r constraints.txt $(ARGS)

# MUTATE: modules or folders; TESTS: the tests that have to notice. A copy of the files in git is changed, in build/mutation.
MUTATE ?= nmt/model nmt/search nmt/evaluation
TESTS ?= tests
mutation: $(TOOLS) ## change nmt/model, nmt/search and nmt/evaluation in small ways, list what no test notices (MUTATE=..., TESTS=...)
	@$(PYTHON) -m venv $(VENV)-mutation
	@$(VENV)-mutation/bin/pip install --quiet --disable-pip-version-check cosmic-ray
	@rm -rf build/mutation && mkdir -p build/mutation && git ls-files -z | tar --null --files-from - --create | tar -x -C build/mutation
	@cd build/mutation && printf '%s\n' '[cosmic-ray]' 'module-path = [$(call quoted,$(MUTATE))]' 'timeout = 300.0' \
		'test-command = "$(abspath $(BIN))/python -m pytest -q -x -m \"not slow\" $(TESTS)"' \
		'[cosmic-ray.distributor]' 'name = "local"' > mutation.toml
	@cd build/mutation && $(MUTANTS)/cosmic-ray baseline mutation.toml && $(MUTANTS)/cosmic-ray init mutation.toml mutation.sqlite
	@cd build/mutation && $(MUTANTS)/cosmic-ray exec mutation.toml mutation.sqlite
	@cd build/mutation && $(MUTANTS)/cr-report --surviving-only --show-diff mutation.sqlite

MUTANTS := $(abspath $(VENV)-mutation/bin)
comma := ,
quoted = $(subst $() $(),$(comma) ,$(patsubst %,"%",$(1)))

lint: $(TOOLS) ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy --platform win32 nmt

format: $(TOOLS) ## format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean: ## remove runs/demo, the demo corpora and what tools leave behind; other runs stay
	rm -rf runs/demo data/demo data/demo-short data/demo-verb-final build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find nmt scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## clean, and remove the virtual environment
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-audit $(VENV)-mutation
