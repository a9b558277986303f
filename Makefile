# make         set up .venv if needed, then train and evaluate at scale mini: results/tables/all.tex, results/index.html
# make demo    the same page of the finished scores in reference/: nothing is trained; the tables as LaTeX: make CONFIG=scores_from=reference
# make help    this list, and what can be named
#
# Parts of it. SCALE=smoke|mini|real|small|paper goes with each, CONFIG="key=value ..." too; those that run the workflow print their snakemake line.
#   make table T=ernie-m/table-01     one table or figure, and what it rests on
#   make train RUN=xlm-r              one run: its weights and the curves of its training
#   make compare A=xlm-r B=mbert      two runs side by side: configuration, scores, cost; CONFIG=scores_from=reference LANGUAGES=de,fr
#   make plan    what the jobs that are not done yet cost, before any of them starts; MACHINE and PLAN choose:
#                make plan SCALE=paper MACHINE=h200 PLAN="--gpus 256"    (python workflow/scripts/bill.py --help)
#   make real    the same on real text, 13 languages, from the network: a day or two on two cores (docs/real.md)
#   make smoke   scale smoke: minutes, every code path, numbers that mean nothing
#   make pdf     results/tables/all.pdf (needs pdflatex)       make report  Snakemake's own report: results/report.html
#
# Of your own. Each writes the file, checks it and says the next command.
#   make new-run NAME=mine FROM=xlm-r                       config/runs/mine.yaml
#   make new-table NAME=mine/table-01 RUNS="xlm-r mine" TASKS="xnli ud-pos"    config/tables/mine/table-01.yaml
#
# Meanwhile and afterwards.
#   make status  from another terminal: jobs done and running, time left, losses; of a failure its cause
#   make curves  the losses of trainings, under way or ended, for TensorBoard (TO=wandb: Weights & Biases; FOLLOW=1 goes on)
#   make push RUN=xlm-r TO=user/name    export a run's model, and say what would go to the Hugging Face Hub; YES=1 sends it
#   make open    the page of results in a browser       make docs    README and docs/ as pages: results/docs/index.html
#   make unlock  after a kill -9 or a power cut, when Snakemake says that the directory cannot be locked; then make again
#
# Tests.
#   make test    style, unit tests, the workflow's plans, and the smoke scale for real       make lint  only style
#   make test-all   the same without drawing samples: every member of every family of tests, for the night
#   make faults  kills jobs and Snakemake at random moments of smoke, and compares the tables (FAULTS="--rounds 60 --seed 2")
#   make test-slurm   the same scale and interrupted trainings through a Slurm that is started on this machine, minutes
#   make setup   only .venv        make lock  write requirements.lock again
#
# Needs Python 3.11 or newer with venv, and make. PYTHON=python3.12 make chooses another Python.

PYTHON ?= python3
CORES ?= all
# What else a call takes stands in profiles/default, for plain snakemake lines too.
SNAKEMAKE := snakemake --cores $(CORES)
RESULTS := tables results/index.html
VENV := .venv
STAMP := $(VENV)/.installed
FREEZE = $(VENV)/bin/python -m pip freeze | sed 's/+[a-z0-9.]*$$//' | sort -f
DEMO_STAMP := $(VENV)/.installed-for-demo
TEST_STAMP := $(VENV)/.installed-for-tests
DOCS_STAMP := $(VENV)/.installed-for-docs

SETTINGS = $(strip $(if $(SCALE),scale=$(SCALE)) $(CONFIG))
# $(call workflow,TARGETS[,MORE SETTINGS]): says the line that it runs.
define workflow
@line="$(SNAKEMAKE) $(if $(strip $(SETTINGS) $(2)),--config $(strip $(SETTINGS) $(2)) -- )$(strip $(1))"; echo "$$line"; $$line
endef
EVERY_RUN = $(notdir $(basename $(wildcard config/runs/*.yaml)))
SHOWN_SCALE = $(or $(SCALE),$(patsubst scale=%,%,$(filter scale=%,$(CONFIG))),mini)

# The rules call `python` and `torchrun`: those of .venv.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.DEFAULT_GOAL := all
.PHONY: all demo real help table train compare new-run new-table status curves push open docs smoke test lint setup lock pdf report plan unlock faults test-all test-slurm
.DELETE_ON_ERROR:

all: setup
	$(call workflow,$(RESULTS))
	@python workflow/scripts/afterwards.py --config $(SETTINGS)

demo: $(DEMO_STAMP)
	$(call workflow,results/index.html,scores_from=reference engine=false)
	@python workflow/scripts/afterwards.py --config $(SETTINGS) scores_from=reference

help:
	@sed -n '/^$$/q; s/^# \{0,1\}//p' Makefile
	@echo; echo "Scales: $(notdir $(basename $(wildcard config/scales/*.yaml)))"
	@echo "Runs, for RUN=, A= and B=: $(filter-out hub-%,$(EVERY_RUN))" | fold -s -w 120
	@echo "Published checkpoints, where languages are real (docs/checkpoint.md): $(filter hub-%,$(EVERY_RUN))" | fold -s -w 120
	@echo "Tables and figures, for T=: $(patsubst config/tables/%.yaml,%,$(wildcard config/tables/*/*.yaml)) $(patsubst config/figures/%.yaml,%,$(wildcard config/figures/*/*.yaml))" | fold -s -w 120

table: setup
	@test -n "$(T)" || { echo "error: which table? make table T=ernie-m/table-01; make help names them" >&2; exit 2; }
	$(call workflow,$(if $(wildcard config/figures/$(T).yaml),results/figures/$(T).png,results/tables/$(T).tex),$(if $(filter runs=%,$(CONFIG)),,runs=all))

train: setup
	@test -n "$(RUN)" || { echo "error: which run? make train RUN=xlm-r; make help names them" >&2; exit 2; }
	$(call workflow,models training,runs=[$(RUN)])
	@test ! -e results/$(SHOWN_SCALE)/runs/$(RUN)/training.png || echo "Curves: results/$(SHOWN_SCALE)/runs/$(RUN)/training.png"
	@echo "What the run scores: make compare A=$(RUN) B=..., once a table has it"

compare: setup
	@test -n "$(A)" -a -n "$(B)" || { echo "error: which two runs? make compare A=xlm-r B=mbert; make help names them" >&2; exit 2; }
	@python workflow/scripts/compare.py "$(A)" "$(B)" --languages "$(LANGUAGES)" --config $(SETTINGS)

new-run: setup
	@python workflow/scripts/new_item.py run "$(NAME)" --from "$(FROM)"

new-table: setup
	@python workflow/scripts/new_item.py table "$(NAME)" --runs $(RUNS) $(if $(TASKS),--tasks $(TASKS))

status: setup
	@python workflow/scripts/status.py

curves: setup
	@python workflow/scripts/curves.py --scale $(SHOWN_SCALE) --to $(or $(TO),tensorboard) $(if $(FOLLOW),--follow)

EXPORTED = results/$(SHOWN_SCALE)/exported/$(RUN)/seed-$(or $(SEED),1)
push: setup
	@test -n "$(RUN)" -a -n "$(TO)" || { echo "error: which run, and where to? make push RUN=xlm-r TO=user/name" >&2; exit 2; }
	$(call workflow,$(EXPORTED))
	@python workflow/scripts/push.py "$(EXPORTED)" --to "$(TO)" $(if $(filter 1,$(YES)),--yes)

open: setup
	@test -f results/index.html || { echo "error: no results/index.html yet: make demo" >&2; exit 2; }
	@python -m webbrowser "file://$(CURDIR)/results/index.html" || echo "open results/index.html in a browser"

docs: $(DOCS_STAMP)
	@python docs/build.py --out results/docs

real: setup
	$(call workflow,$(RESULTS),scale=real)

smoke: setup
	$(call workflow,$(RESULTS),scale=smoke)

# A line for each job goes to results/plan.csv.
plan: setup
	@python workflow/scripts/bill.py $(if $(SETTINGS),--config $(SETTINGS)) $(if $(MACHINE),--machine $(MACHINE)) $(PLAN) \
	  --csv results/plan.csv -- $(or $(TARGETS),results/tables/all.tex)

report: setup
	$(call workflow,$(RESULTS) pages)
	snakemake --report results/report.html $(if $(SETTINGS),--config $(SETTINGS)) -- $(RESULTS) pages

pdf: setup
	$(call workflow,results/tables/all.pdf)

unlock: setup
	snakemake --unlock

faults: setup
	python tests/faults/kill.py --out results/faults/kills.json $(FAULTS)

# A process for each core and one more, for some wait; each has whole files. It says what is done and how long is left
# (tests/progress.py). Of some families of like tests a sample is drawn, and test-all runs each of them.
PROCESSES = $(shell $(PYTHON) -c 'import os; print(min(8, os.cpu_count() + 1))')
PYTEST = python -m pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder

test: lint $(TEST_STAMP)
	$(PYTEST)

test-all: lint $(TEST_STAMP)
	$(PYTEST) --whole

# Skipped, with a word, where Slurm is not installed (Debian: slurmctld slurmd slurm-client). It ends what it has started. Each process
# has a cluster of its own, and mostly waits; who is done takes over tests that others have not begun, the longest begin first.
test-slurm: $(TEST_STAMP)
	python -m pytest -m slurm -rs --numprocesses 3 --dist worksteal tests/test_slurm_document.py tests/test_slurm.py

lint: $(TEST_STAMP)
	ruff check workflow tests benchmarks docs
	ruff format --check workflow tests benchmarks docs
	snakefmt --check Snakefile workflow
	snakemake --lint

setup: $(STAMP)

# Of the pins, $(1): whatever is in .venv already stays. The seconds are said, for they are what a newcomer waits for.
define install
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "error: $$($(PYTHON) --version 2>&1 || echo no python3) is too old: install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2; exit 2; }
@$(PYTHON) -c 'import ensurepip, venv' || \
  { echo "error: $(PYTHON) lacks the module venv: install it (Debian and Ubuntu: apt-get install python3-venv)" >&2; exit 2; }
@echo "$(VENV): installs the pins of $(1), once; $(2)"
@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
$(VENV)/bin/python -m pip install --quiet --requirement $(1)
endef

$(STAMP): requirements.lock
	$(call install,requirements.lock,a minute or two where the network is fast: torch is large)
	touch $@ $(DEMO_STAMP)

# A part of requirements.lock, and nothing where that is installed.
$(DEMO_STAMP): requirements-demo.lock
	$(if $(wildcard $(STAMP)),,$(call install,requirements-demo.lock,half a minute where the network is fast))
	touch $@

$(DOCS_STAMP): docs/requirements.txt $(DEMO_STAMP)
	$(VENV)/bin/python -m pip install --quiet --requirement docs/requirements.txt
	touch $@

# ErnieM is in no transformers that .venv can have beside today's: another one lies in a folder of its own.
$(TEST_STAMP): tests/requirements.txt tests/requirements-ernie-m.txt $(STAMP)
	$(VENV)/bin/python -m pip install --quiet --requirement tests/requirements.txt --constraint requirements.lock
	rm -rf $(VENV)/ernie-m
	$(VENV)/bin/python -m pip install --quiet --no-deps --target $(VENV)/ernie-m --requirement tests/requirements-ernie-m.txt
	touch $@

# What requirements.txt asks for and everything below it; and of these versions what the demo asks for.
lock:
	rm -rf $(VENV) $(VENV)-demo
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --requirement requirements.txt
	{ echo '# Written by `make lock` from requirements.txt; `make setup` installs it.'; $(FREEZE); } > requirements.lock
	$(PYTHON) -m venv $(VENV)-demo
	$(VENV)-demo/bin/python -m pip install --quiet --requirement requirements-demo.txt --constraint requirements.lock
	{ echo '# Written by `make lock` from requirements-demo.txt; `make demo` installs it.'; $(subst $(VENV),$(VENV)-demo,$(FREEZE)); } > requirements-demo.lock
	rm -rf $(VENV)-demo
	touch $(STAMP) $(DEMO_STAMP)
