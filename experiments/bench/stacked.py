"""Many learners in one process or two: a step against its floor and a loop over modules."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import topologies
from experiments.bench import workload
from experiments.bench.measure import Meeting, Work, interleaved
from experiments.bench.rows import Case, Row, rows_of
from experiments.bench.size import Size
from experiments.bench.workload import Bench, Learner, study_of
from gossip.comm.connect import connect
from gossip.comm.stacked import Stacked
from gossip.config import Model

ONE_MODEL, STACKED, LOOP = "one model, n B", "stacked DPSGD", "loop over n modules"
MIXING_N, MIXING_D = 16, 42_310
MIXED = ("one-peer-exponential", "ring", "exponential", "complete")
MODELS = {
    "mlp": ("784-50-50-10", Model()),
    "cnn": ("cnn", Model(model="cnn")),
    "transformer": ("transformer", Model(model=f"{workload.__name__}:transformer")),
}
"""What each is called in a case, and itself."""
HOSTED = ((16, 125), (16, 32))
"""(n, B) in two processes."""


def rows(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """Our step, the floor and the loop."""
    for name, n, batch in size.stacked_models:
        said, model = MODELS[name]
        bench = Bench(study_of(n, batch, dataset=size.dataset, model=model), Stacked(n))
        learners = [Learner.of(bench, j) for j in range(n)]
        together = study_of(1, n * batch, dataset=size.dataset, model=model)
        whole = Learner.of(Bench(together, Stacked(1)))
        works = {
            ONE_MODEL: Work(whole.training(whole.module())),
            STACKED: Work(bench.step),
            LOOP: Work(loop_over_modules(learners)[0]),
        }
        case = Case(
            table="stacked",
            case=f"{said}, n={n} B={batch}, ring",
            learners=n,
            d=bench.study.task.d,
            batch=batch,
        )
        meeting.say(f"stacked: {case.case}")
        yield rows_of(case, interleaved(works, size.rounds, meeting, size.block_ms()), ONE_MODEL)


def mixing_rows(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """W X against a copy of the same rows, which nothing can beat."""
    n, d = MIXING_N, MIXING_D
    x, target, comm = torch.randn(n, d), torch.empty(n, d), Stacked(n)
    works = {"copy": Work(partial(target.copy_, x))}
    for name in MIXED:
        w = topologies.build(name, n).matrix(0)
        works[name] = Work(lambda w=w: comm.start_mix(x, w)())
    case = Case(table="mixing", case=f"W X in one process, n={n} d={d:,}", learners=n, d=d)
    meeting.say(f"mixing: {case.case}")
    yield rows_of(case, interleaved(works, size.rounds, meeting, size.block_ms() / 4), "copy")


def hosted_rows(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """Several learners in each of two processes: a step with neighbours and without."""
    for n, batch in HOSTED:
        bench = Bench(study_of(n, batch, dataset=size.dataset), connect("mpi", n))
        works = {"compute only": Work(bench.compute), "step": Work(bench.step)}
        case = Case(
            table="hosted",
            case=f"784-50-50-10, n={n} B={batch}, ring, {meeting.comm.processes} processes",
            processes=meeting.comm.processes,
            learners=n,
            d=bench.study.task.d,
            batch=batch,
        )
        meeting.say(f"hosted: {case.case}")
        times = interleaved(works, size.rounds, meeting, size.block_ms())
        yield rows_of(case, times, "compute only")


def loop_over_modules(
    learners: list[Learner],
) -> tuple[Callable[[], None], list[torch.nn.Module]]:
    """The naive step, a loop over modules and an average over the ring, and those modules."""
    modules = [learner.module() for learner in learners]
    trainings = [
        learner.training(module) for learner, module in zip(learners, modules, strict=True)
    ]
    n = len(learners)

    def step() -> None:
        with torch.no_grad():
            rows = [parameters_to_vector(module.parameters()) for module in modules]
            mixed = [(rows[j - 1] + rows[j] + rows[(j + 1) % n]) / 3 for j in range(n)]
        for j, (module, train) in enumerate(zip(modules, trainings, strict=True)):
            train()
            with torch.no_grad():
                increment = parameters_to_vector(module.parameters()) - rows[j]
                vector_to_parameters(mixed[j] + increment, module.parameters())

    return step, modules
