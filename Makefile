# make        set up .venv if needed, then regenerate every table at scale mini: results/tables/all.tex, results/index.html
# make smoke  the same at scale smoke: minutes, every code path, numbers that mean nothing
# make report what is missing, then Snakemake's own report of it: results/report.html
# make plan   what the jobs that are not done yet cost, before any of them starts; CONFIG, MACHINE and PLAN choose:
#             make plan CONFIG="scale=paper" MACHINE=h200 PLAN="--gpus 256"    (python workflow/scripts/bill.py --help)
# make test   style, unit tests, the workflow's plans, and the smoke scale for real
# make unlock after a kill -9 or a power cut, when Snakemake says that the directory cannot be locked; then make again
# make faults kills jobs and Snakemake at random moments of smoke, and compares the tables (FAULTS="--rounds 60 --seed 2")
# make test-slurm   the same scale and interrupted trainings through a Slurm that is started on this machine, minutes
# make setup  only .venv        make lint  only style        make lock  write requirements.lock again
#
# Needs Python 3.11 or newer with venv, make and a C++ compiler (g++: fasttext is compiled). PYTHON=python3.12 make chooses another.

PYTHON ?= python3
CORES ?= all
# Snakemake's default scheduler solves a program at every job's end, and looks again each second for every job that has
# ended so far: a third of a core, over hundreds of jobs. So greedy, and every 5 seconds (of which it waits once, at its end).
SNAKEMAKE := snakemake --cores $(CORES) --scheduler greedy --max-jobs-per-timespan 1000/5s --rerun-incomplete
RESULTS := tables results/index.html
VENV := .venv
STAMP := $(VENV)/.installed
TEST_STAMP := $(VENV)/.installed-for-tests

# The rules call `python` and `torchrun`: those of .venv.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.DEFAULT_GOAL := all
.PHONY: all smoke test lint setup lock pdf report plan unlock faults test-slurm
.DELETE_ON_ERROR:

all: setup
	$(SNAKEMAKE) $(RESULTS)

smoke: setup
	$(SNAKEMAKE) --config scale=smoke -- $(RESULTS)

# A line for each job goes to results/plan.csv.
plan: setup
	@python workflow/scripts/bill.py $(if $(CONFIG),--config $(CONFIG)) $(if $(MACHINE),--machine $(MACHINE)) $(PLAN) \
	  --csv results/plan.csv -- $(or $(TARGETS),results/tables/all.tex)

report: setup
	$(SNAKEMAKE) $(RESULTS) pages
	snakemake --report results/report.html -- $(RESULTS) pages

pdf: setup
	$(SNAKEMAKE) results/tables/all.pdf

unlock: setup
	snakemake --unlock

faults: setup
	python tests/faults/kill.py --out results/faults/kills.json $(FAULTS)

test: lint $(TEST_STAMP)
	python -m pytest

# Skipped, with a word, where Slurm is not installed (Debian: slurmctld slurmd slurm-client). It ends what it has started.
test-slurm: $(TEST_STAMP)
	python -m pytest -m slurm -rs tests/test_slurm.py

lint: setup
	ruff check workflow tests benchmarks
	ruff format --check workflow tests benchmarks
	snakefmt --check Snakefile workflow
	snakemake --lint

setup: $(STAMP)

$(STAMP): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $$($(PYTHON) --version 2>&1 || echo no python3) is too old: install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "error: $(PYTHON) lacks the module venv: install it (Debian and Ubuntu: apt-get install python3-venv)" >&2; exit 2; }
	@command -v $${CXX:-g++} > /dev/null || command -v c++ > /dev/null || \
	  { echo "error: no C++ compiler, and fasttext has no binary packages: install one (Debian and Ubuntu: apt-get install g++ python3-dev)" >&2; exit 2; }
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --requirement requirements.lock
	touch $@

# ErnieM is in no transformers that .venv can have beside today's: another one lies in a folder of its own.
$(TEST_STAMP): tests/requirements.txt tests/requirements-ernie-m.txt $(STAMP)
	$(VENV)/bin/python -m pip install --quiet --requirement tests/requirements.txt --constraint requirements.lock
	rm -rf $(VENV)/ernie-m
	$(VENV)/bin/python -m pip install --quiet --no-deps --target $(VENV)/ernie-m --requirement tests/requirements-ernie-m.txt
	touch $@

lock:
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --requirement requirements.txt
	{ echo '# Written by `make lock` from requirements.txt; `make setup` installs it.'; \
	  $(VENV)/bin/python -m pip freeze | sed 's/+[a-z0-9.]*$$//' | sort -f; } > requirements.lock
	touch $(STAMP)
