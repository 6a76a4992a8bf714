VENV ?= .venv
PYTHON := $(VENV)/bin/python
PYTEST_MPI := -m pytest --with-mpi -p no:cacheprovider tests/mpi
ARGS ?=

.PHONY: setup data run test test-serial test-mpi test-openmpi check format bench figures clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
