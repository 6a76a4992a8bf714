"""The cases that tests/mpi deals to its jobs: no pair is lost, and few are repeated."""

import re
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.mpi import covering
from tests.mpi.covering import JOBS, MPICH, OPENMPI, array, every_value, places_of
from tests.parts import MANY

ALL_PAIRS = {2, 3, 4}


def cases_of(*sizes):
    names = "abcd"[: len(sizes)]
    return [dict(zip(names, values, strict=True)) for values in product(*map(range, sizes))]


SHAPES = [(), (1,), (7,), (10, 8), (2, 9, 2), (2, 2, 2, 3)]


@pytest.mark.parametrize("sizes", SHAPES)
def test_every_pair_is_covered(sizes):
    cases = cases_of(*sizes)
    chosen = array(cases)
    run = [(set(cases[number].items()), job) for number, job in chosen]
    assert {job.processes for _, job in run} == ALL_PAIRS
    assert {job.vendor for _, job in run} == {MPICH, OPENMPI}
    values = {value for case in cases for value in case.items()}
    for value in values:
        assert {job.processes for case, job in run if value in case} == ALL_PAIRS
        assert {job.vendor for case, job in run if value in case} == {MPICH, OPENMPI}
    for one, other in combinations(sorted(values), 2):
        assert one[0] == other[0] or any({one, other} <= case for case, _ in run)


def test_functions_of_a_file_share_where_their_values_have_been():
    """Each function is everywhere, and each value, but not each value with each function."""
    cases, met, runs = cases_of(7), set(), []
    for turn in range(6):
        jobs = array(cases, met=met, turn=turn)
        met.update(pair for number, job in jobs for pair in places_of(cases[number], job))
        assert {number for number, _ in jobs} == set(range(7))
        assert {job.processes for _, job in jobs} == ALL_PAIRS
        assert {job.vendor for _, job in jobs} == {MPICH, OPENMPI}
        runs.append(jobs)
    for number in range(7):
        where = {job for jobs in runs for run, job in jobs if run == number}
        assert {job.processes for job in where} == ALL_PAIRS
        assert {job.vendor for job in where} == {MPICH, OPENMPI}
    assert all(len(jobs) == 7 for jobs in runs[1:])
    assert {job for jobs in runs for _, job in jobs} == set(JOBS)


@pytest.mark.parametrize(
    ("sizes", "most"),
    [
        ((7,), 21),
        ((10, 8), 90),
        (
            (
                2,
                2,
                2,
                3,
            ),
            12,
        ),
    ],
)
def test_the_product_is_not_run(sizes, most):
    chosen = array(cases_of(*sizes))
    assert len(chosen) == len(set(chosen)) <= most < len(cases_of(*sizes)) * len(JOBS)


def test_what_a_job_cannot_run_goes_to_the_others():
    """A pair is given up only where no job can run it."""

    def runs(number, job):
        return cases[number]["a"] == 0 or job.processes == 2

    cases = cases_of(3, 2)
    chosen = array(cases, runs)
    assert all(runs(number, job) for number, job in chosen)
    assert {(c["a"], c["b"]) for c in (cases[number] for number, _ in chosen)} == {
        *product(range(3), range(2))
    }
    assert {job.processes for number, job in chosen if cases[number]["a"] == 0} == ALL_PAIRS
    assert array(cases, lambda number, job: False) == []


def test_the_files_for_many_processes_are_those_that_say_so():
    found = {
        f"tests/mpi/{file.name}"
        for file in Path(covering.__file__).parent.glob("test_*.py")
        if re.search(r"processes\([^)]*\b16\)", file.read_text(encoding="utf-8"))
    }
    assert found == set(MANY)


def test_a_whole_run_is_among_what_many_processes_do():
    """Its function's name has a word that in a case's means a kind of communicator."""

    def item(name):
        return SimpleNamespace(
            name=name, get_closest_marker=lambda _: pytest.mark.processes(2, covering.MANY).mark
        )

    many = covering.Job(covering.MPICH, covering.MANY)
    names = ("test_for_each_learner", "test_rows[mpi-one_each]", "test_rows[mpi-two_each]")
    assert [covering.possible_in(item(name), many) for name in names] == [True, True, False]


def test_every_value_occurs_where_few_cases_are_run():
    cases = cases_of(3, 8)
    chosen = [cases[number] for number in every_value(cases)]
    assert len(chosen) == 8
    assert {value for case in chosen for value in case.items()} == {
        value for case in cases for value in case.items()
    }
    assert every_value([{}, {}]) == [0]
    assert every_value([]) == []
