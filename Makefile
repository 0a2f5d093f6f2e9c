# `make` or `make help` lists what there is. What is missing is set up first, in a virtual environment of its own.

# The first Python of 3.11 or newer that can make virtual environments; or say PYTHON=...
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV ?= .venv
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
DEMO_JOBS ?= 3
DEMO_SET ?=
ARGS ?=

TEST_JOBS ?= 2
# the tests of a file share what they have trained
PARALLEL = -n $(TEST_JOBS) --dist loadfile

BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := runs/demo
SYSTEMS_OF_DEMO := none bahdanau luong
CURVE := $(DEMO)/length_curve
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo benchmark torture mutation test test-all test-lowest test-package audit lint format figure clean distclean
.DELETE_ON_ERROR:

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- set-up ---------------------------------------------------------------------------------------------------------

$(READY): pyproject.toml constraints.txt
	@$(if $(strip $(PYTHON)),,$(error Python 3.11 or newer with its venv module is needed (on Debian and Ubuntu: \
		apt install python3-venv); where it is elsewhere: make PYTHON=/path/to/python3))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, $(PYTHON) is older")'
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@echo "installing PyTorch (large: minutes)"
	@$(PIP) "$$(grep ^torch== constraints.txt)"
	@echo "installing the toolkit and everything else it needs"
	@$(PIP) --editable '.[dev]'
	@touch $@

# How a run is begun: $(call HOW,mark of a finished run,run). Finished and now out of date, which is said, or cut short
# before anything was saved: again from the start. Cut short later: resumed.
HOW = if [ -e $(1) ]; then how=--overwrite; echo "$(2) is older than its configuration or corpus: it is trained again" >&2; \
	elif [ -e $(2)/checkpoints/last ] || [ -e $(2)/checkpoints/previous ]; then how=--resume; \
	elif [ -e $(2) ]; then how=--overwrite; else how=; fi; rm -f $(1)

# --- the demo -------------------------------------------------------------------------------------------------------
# A run that was cut short is resumed, a finished one is left alone, one that is older than its configuration or corpus is
# made again. DEMO_JOBS says how many train side by side, one thread each. DEMO_SET="training.updates=100 seed=2" overrides
# options, for runs in a directory of their own: DEMO=runs/trial.

demo: $(READY) ## train without attention, Bahdanau's and Luong's on the embedded language; draw the length-decay figure
	@$(MAKE) --no-print-directory -j $(DEMO_JOBS) $(SYSTEMS_OF_DEMO:%=$(DEMO)/.%.finished)
	@$(MAKE) --no-print-directory $(CURVE).png
	@echo "the figure: $(CURVE).png, with its numbers in .csv and .json"
	@echo "translate:  echo 'Your swallow will swim.' | $(BIN)/nmt-translate --model $(DEMO)/bahdanau"

data/demo/.ready: scripts/make_demo_corpus.py $(wildcard nmt/demo/*.py) | $(READY)
	@$(BIN)/python scripts/make_demo_corpus.py --output $(@D)
	@touch $@

data/demo/train.en data/demo/test.en data/demo/test.fr: data/demo/.ready ; @:

$(DEMO)/.%.finished: configs/demo/%.yaml data/demo/train.en $(DEMO)/.set | $(READY)
	@mkdir -p $(@D)
	@$(call HOW,$@,$(@D)/$*); \
		$(BIN)/nmt-train --config $< --output $(@D)/$* $(DEMO_SET:%=--set %) $$how \
		2>&1 | (trap '' INT TERM; exec sed -u 's/^/$*: /')
	@touch $@

# which options the runs have; runs that have others are not replaced without a word
$(DEMO)/.set: FORCE
	@mkdir -p $(@D); echo "$(DEMO_SET)" | cmp -s - $@ && exit; \
		if [ -e $@ ] && ls $(DEMO)/*/config.yaml >/dev/null 2>&1; then \
			echo "$(DEMO) holds runs made with DEMO_SET=\"$$(cat $@)\", not \"$(DEMO_SET)\"; name another directory:" \
				"make demo DEMO=$(DEMO)-2 DEMO_SET=\"$(DEMO_SET)\"; or remove these runs: rm -r $(DEMO)" >&2; exit 2; \
		fi; echo "$(DEMO_SET)" > $@
FORCE:

$(CURVE).png: $(SYSTEMS_OF_DEMO:%=$(DEMO)/.%.finished)
	@$(BIN)/nmt-length-curve --source data/demo/test.en --reference data/demo/test.fr --output $(CURVE) \
		$(foreach system,$(SYSTEMS_OF_DEMO),--system $(system)=$(DEMO)/$(system) \
			--hypotheses $(system)=$(DEMO)/$(system)/test.hypotheses.txt)

# --- the length-decay figure ------------------------------------------------------------------------------------------
# CONFIGS are trained with each of SEEDS into FIGURE/NAME/seed-N, NAME being the file's; each translates SOURCE, and the
# curves, means over the seeds, are drawn into FIGURE/TEST.*, TEST being the name of SOURCE, and what may be the reasons
# into FIGURE/TEST.why.*. What is done is left alone, what was cut short goes on; another SOURCE needs no training again.
# Relative paths, in CONFIGS too, start at FROM, by default the checkout; FIGURE starts at the checkout.
# Without CONFIGS it is docs/length-decay.md that is made, with all its figures: see scripts/length_decay.sh.

SEEDS ?= 1
FIGURE ?= runs/figure
FIGURE_SET ?=
FROM ?=
TEST := $(basename $(notdir $(SOURCE)))
NAMES := $(notdir $(basename $(CONFIGS)))
# $(call AT,files): where files are that were named relative to FROM; $(call SEEN,file): its name for a command run there
AT = $(foreach file,$(1),$(if $(FROM),$(if $(filter /% ~%,$(file)),,$(FROM)/))$(file))
SEEN = $(if $(FROM),$(abspath $(1)),$(1))
SOURCE_FILE := $(call AT,$(SOURCE))
REFERENCE_FILE := $(call AT,$(REFERENCE))
OF_SYSTEMS = $(foreach name,$(NAMES),$(foreach seed,$(SEEDS),--system $(name)=$(FIGURE)/$(name)/seed-$(seed) \
	--hypotheses $(name)=$(FIGURE)/$(name)/$(TEST).seed-$(seed).txt))
HYPOTHESES := $(foreach name,$(NAMES),$(foreach seed,$(SEEDS),$(FIGURE)/$(name)/$(TEST).seed-$(seed).txt))

define SYSTEM # configuration, name, seed
$(FIGURE)/$(2)/.seed-$(3).finished: $(1) | $(READY) $(SOURCE_FILE) $(REFERENCE_FILE)
	@mkdir -p $$(@D)
	@$$(call HOW,$$@,$$(@D)/seed-$(3)); $(if $(FROM),cd $(FROM) &&) \
		$(call SEEN,$(BIN))/nmt-train --config $(call SEEN,$(1)) --output $$(call SEEN,$$(@D)/seed-$(3)) \
		--set seed=$(3) $(FIGURE_SET:%=--set %) $$$$how
	@touch $$@

$(FIGURE)/$(2)/$(TEST).seed-$(3).txt: $(FIGURE)/$(2)/.seed-$(3).finished $(SOURCE_FILE)
	@echo "$(2), seed $(3): translating $(SOURCE_FILE)"
	@$(BIN)/nmt-translate --model $$(@D)/seed-$(3) --input $(SOURCE_FILE) --output $$@.part && mv $$@.part $$@
endef
$(foreach config,$(call AT,$(CONFIGS)),$(foreach seed,$(SEEDS),\
	$(eval $(call SYSTEM,$(config),$(notdir $(basename $(config))),$(seed)))))

SIZE ?= cpu

figure: $(READY) ## docs/length-decay.md; or with CONFIGS="FILE ..." SOURCE=FILE REFERENCE=FILE the figure of your systems
ifeq ($(CONFIGS),)
	@BIN=$(BIN) SEEDS="$(SEEDS)" SIZE="$(SIZE)" scripts/length_decay.sh
else
	@$(foreach name,SOURCE REFERENCE,$(if $($(name)),,$(error make figure CONFIGS=... needs $(name)=...; for example: \
		make figure CONFIGS="configs/demo/none.yaml configs/demo/bahdanau.yaml" SEEDS="1 2" \
		SOURCE=data/demo/test.en REFERENCE=data/demo/test.fr)))
	@$(foreach name,SOURCE REFERENCE FIGURE FROM,$(if $(word 2,$($(name))),$(error $(name)=$($(name)): make takes no \
		names with spaces; make a link without spaces, and name that)))
	@$(if $(filter-out $(words $(sort $(NAMES))),$(words $(CONFIGS))),$(error two of CONFIGS have the same name: $(NAMES)))
	@$(MAKE) --no-print-directory $(FIGURE)/$(TEST).csv $(FIGURE)/$(TEST).why.csv
	@echo "the figure: $(FIGURE)/$(TEST).png, with its numbers in .csv and .json; the reasons: $(FIGURE)/$(TEST).why.*"

# any other file that is needed
.DEFAULT:
	@echo "make figure: $@: no such file (tried $(abspath $@)); relative paths start at $(CURDIR), or at FROM=DIRECTORY" >&2
	@exit 2

# which systems the figures are of, drawn how: touched where that has changed
$(FIGURE)/.$(TEST).systems: FORCE
	@mkdir -p $(@D); echo "$(HYPOTHESES) $(ARGS)" | cmp -s - $@ || echo "$(HYPOTHESES) $(ARGS)" > $@

$(FIGURE)/$(TEST).csv: $(HYPOTHESES) $(REFERENCE_FILE) $(FIGURE)/.$(TEST).systems
	@$(BIN)/nmt-length-curve --source $(SOURCE_FILE) --reference $(REFERENCE_FILE) --output $(FIGURE)/$(TEST) $(ARGS) \
		$(OF_SYSTEMS)

$(FIGURE)/$(TEST).why.csv: $(HYPOTHESES) $(REFERENCE_FILE) $(FIGURE)/.$(TEST).systems
	@$(BIN)/nmt-diagnose --source $(SOURCE_FILE) --reference $(REFERENCE_FILE) --output $(FIGURE)/$(TEST).why \
		$(OF_SYSTEMS)
endif

# --- work -----------------------------------------------------------------------------------------------------------

benchmark: $(READY) ## training speed of this CPU, against what it multiplies (ARGS=... goes to scripts/benchmark.py)
	@$(BIN)/python scripts/benchmark.py $(ARGS)

torture: $(READY) ## faults, hostile input and sameness, at length: 10 to 15 minutes on 2 cores (ARGS=... goes to scripts/torture.py)
	@$(BIN)/python scripts/torture.py $(ARGS)

mutation: $(READY) ## make listed mistakes in the code, one at a time: do the tests notice them? (ARGS=... goes to scripts/mutation.py)
	@$(BIN)/python scripts/mutation.py $(ARGS)

test: $(READY) ## the tests but for slow ones, as many at a time as TEST_JOBS (2; ARGS=... goes to pytest)
	@$(BIN)/python -m pytest $(PARALLEL) -m "not slow" $(ARGS)

test-all: $(READY) ## all tests
	@$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

test-lowest: $(READY) ## the tests, with the lowest versions of all packages that the project claims to work with
	@$(PYTHON) -m venv $(VENV)-lowest
	@$(BIN)/python scripts/lowest_versions.py > $(VENV)-lowest/constraints.txt
	@$(VENV)-lowest/bin/pip install --quiet --disable-pip-version-check "$$(grep ^torch== constraints.txt)"
	@$(VENV)-lowest/bin/pip install --quiet --disable-pip-version-check -c $(VENV)-lowest/constraints.txt --editable '.[dev]'
	@$(VENV)-lowest/bin/python -m pytest $(PARALLEL) -W ignore::DeprecationWarning $(ARGS)

test-package: $(READY) ## build the package, install it into an empty environment, train and translate from there
	@$(BIN)/python scripts/try_package.py $(ARGS)

audit: ## whether a vulnerability is known of any package in constraints.txt (asks the package index; ARGS=... goes to pip-audit)
	@$(PYTHON) -m venv $(VENV)-audit
	@$(VENV)-audit/bin/pip install --quiet --disable-pip-version-check pip-audit
	@$(VENV)-audit/bin/pip-audit --no-deps --disable-pip --strict -r constraints.txt $(ARGS)

lint: $(READY) ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(READY) ## put the code into its form
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean: ## remove the demo and what tools leave behind; your own runs stay
	rm -rf $(DEMO) data/demo build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find nmt scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## clean, and remove the virtual environment
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-audit
