"""Which cases of tests/mpi a job runs: all pairs are covered, the product of them is not.

A case of a test has parameters (algorithm, topology, transport, rate ...), and is run by a job of
some number of processes, with the MPI of some vendor. Faults of one value, or of two values that
meet, are what such tests find; so the tests of a file are run until

- each test function has been on each number of processes (2, 3 and 4), with the MPI of each vendor,
  and with each value of its parameters,
- any two values of its parameters that occur together have been together in some job,
- each value has been on each number of processes and with the MPI of each vendor, in whichever of
  the file's functions,

which is an all-pairs covering array, the function being one of the choices; it is made by always
taking a case and a job that bring most new pairs for its processes. Two numbers of processes have
little of their own, or make each case dear: one process, for which nothing travels, runs one case
of each function; 16 run what so many could change in the transports, and one whole run, with one
learner each, every value once.

All processes of all jobs choose alike, without a word between them: so no parameter may depend on
the number of processes. Where one has to, `pytest.mark.product` keeps every case on every number of
processes, with one vendor. `pytest.mark.processes(2, 4)` names the numbers that a test is for, if
not 1 to 4. Without `--covering` a job runs every case there is (`make test-all`).
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, product

import pytest

from tests.covering import greedy

Case = dict[str, Hashable]
"""Name of a parameter -> its value."""
Pair = tuple[Hashable, Hashable]


@dataclass(frozen=True)
class Job:
    """Where cases run."""

    vendor: str
    processes: int


MPICH, OPENMPI = "MPICH", "Open MPI"
PROCESSES = (1, 2, 3, 4)
"""The numbers that a test is for, unless it says which."""
ALONE, MANY = 1, 16
"""The numbers that do not share in the pairs."""
JOBS = [Job(MPICH, 2), Job(OPENMPI, 2), Job(MPICH, 3), Job(MPICH, 4), Job(OPENMPI, 4)]
"""Those that do, the cheapest first."""


def pairs(case: Case, job: Job) -> Iterator[Pair]:
    """What a case in a job covers of its function."""
    yield "the test", job.processes
    yield "the test", job.vendor
    for value in case.items():
        yield "the test", value
    yield from combinations(case.items(), 2)
    yield from places_of(case, job)


def places_of(case: Case, job: Job) -> Iterator[Pair]:
    """What it covers for its file: where its values have been."""
    for value in case.items():
        yield value, job.processes
        yield value, job.vendor


def array(
    cases: Sequence[Case],
    runs: Callable[[int, Job], bool] = lambda number, job: True,
    met: Collection[Pair] = (),
    turn: int = 0,
) -> list[tuple[int, Job]]:
    """Numbers of cases, and the jobs that run them.

    Args:
        cases: of one test function.
        runs: tells what is possible at all.
        met: what the functions before it have covered for its file.
        turn: the number of the function, so that not all take the same jobs for the same values.
    """
    # All jobs by turns, where they are as good.
    places = sorted(
        product(range(len(cases)), range(len(JOBS))),
        key=lambda place: ((place[1] - place[0] - turn) % len(JOBS), place),
    )
    offered = [
        (set(pairs(cases[number], JOBS[job])).difference(met), number, JOBS[job])
        for number, job in places
        if runs(number, JOBS[job])
    ]
    chosen = greedy(
        [covered for covered, _, _ in offered], [job.processes for _, _, job in offered]
    )
    return [offered[k][1:] for k in chosen]


def every_value(cases: Sequence[Case]) -> list[int]:
    """Numbers of cases in which every value occurs, each taken for what is new in it."""
    seen: set[Pair] = set()
    chosen = []
    for number, case in enumerate(cases):
        if not chosen or (case and seen.isdisjoint(case.items())):
            seen |= set(case.items())
            chosen.append(number)
    for number, case in enumerate(cases):
        if not seen.issuperset(case.items()):
            seen |= set(case.items())
            chosen.append(number)
    return sorted(chosen)


def dealt(items: Sequence[pytest.Item], job: Job) -> list[pytest.Item]:
    """Those of the collected cases that this job runs, in their order."""
    chosen: set[pytest.Item] = set()
    for _, file in groupby(items, key=lambda item: item.nodeid.partition("::")[0]):
        met: set[Pair] = set()
        functions = groupby(file, key=lambda item: item.nodeid.partition("[")[0])
        for turn, (_, group) in enumerate(functions):
            chosen |= set(share(list(group), job, met, turn))
    return [item for item in items if item in chosen]


def share(items: list[pytest.Item], job: Job, met: set[Pair], turn: int = 0) -> list[pytest.Item]:
    """What this job runs of one test function's cases; `met` is added to, see `array`."""
    if items[0].get_closest_marker("product"):
        return items if job.vendor == MPICH and job.processes not in (ALONE, MANY) else []
    if job.processes in (ALONE, MANY):
        possible = [item for item in items if possible_in(item, job)]
        cases = [parameters(item) for item in possible]
        return [possible[i] for i in every_value(cases)[: 1 if job.processes == ALONE else None]]
    cases = [parameters(item) for item in items]
    jobs = array(cases, lambda number, other: possible_in(items[number], other), met, turn)
    met.update(pair for number, other in jobs for pair in places_of(cases[number], other))
    return [items[number] for number, other in jobs if other == job]


def parameters(item: pytest.Item) -> Case:
    """The parameters of a collected case: the same object is the same value."""
    spec = getattr(item, "callspec", None)
    return {name: id(value) for name, value in spec.params.items()} if spec else {}


def possible_in(item: pytest.Item, job: Job) -> bool:
    """Whether a job of `make test` may run a case."""
    marker = item.get_closest_marker("processes")
    if job.processes not in (marker.args if marker else PROCESSES):
        return False
    name = item.name.lower()
    kind = name.partition("[")[2]
    if job.processes == MANY and "_each" in kind:
        return "one_each" in kind
    # Where processes share cores, Open MPI's busy waiting takes them from Gloo's threads.
    busy = job.vendor == OPENMPI and job.processes > 2
    return not (busy and ("gloo" in name or "groups" in name))
