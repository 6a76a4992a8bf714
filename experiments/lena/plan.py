"""The plan of the LENA study, and of its rivals', names every run and gives its config.

All runs of one task see the same training samples equally often, E epochs of them in batches of B
per learner, from the same seeds. A run's name says all in which it differs from the others, so
that a run that both studies want is made once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from experiments.common.scale import Scale
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.config.presets import PRESETS

STUDY = "lena"
"""Name of the folder that the runs lie in, those of `experiments.rivals` too."""

SCALINGS = ("linear", "adascale", "lena")
WARMUPS = ("none", "fixed", "state-aware")
DIAGONAL = {
    "LSW": ("linear", "fixed"),
    "AdaScale": ("adascale", "none"),
    "LENA": ("lena", "state-aware"),
}
"""The methods of Table 1 as cells of Table 2. AdaScale's paper has no warm-up: its gain starts
at 1 by itself."""

ErrorOf = Callable[[str], float | None]
"""Best validation error of a finished run, by its name; None if there is none."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A data set, a model, and the number of epochs."""

    dataset: str
    model: str
    samples: int
    """N, the number of training samples without those held out."""
    validation: int
    epochs: float
    prefix: str = ""
    """Prefix of the names of its runs."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """Sizes of this study and of `experiments.rivals`."""

    main: Task = Task(
        dataset="fashion-mnist", model="cnn", samples=55_000, validation=5_000, epochs=4.0
    )
    small: Task = Task(
        dataset="cifar10", model="cnn-bn", samples=45_000, validation=5_000, epochs=4.0,
        prefix="cifar-",
    )  # fmt: skip
    """A second, small task: one seed, two n."""
    batch: int = 32
    """B, the batch of each learner."""
    evaluations: int = 12
    """Approximate number of evaluations of a run."""
    learners: tuple[int, ...] = (8, 16, 32, 64, 128)
    few_learners: tuple[int, ...] = (8, 32, 128)
    """Values of n in Table 3."""
    layer_learners: tuple[int, ...] = (32, 128)
    """Values of n in Fig. 4."""
    small_learners: tuple[int, ...] = (8, 32)
    rival_learners: tuple[int, ...] = (16, 64)
    rates: tuple[float, ...] = (0.01, 0.02, 0.04, 0.08)
    """Base rates tried on the single worker."""
    base_seeds: int = 3
    seeds: int = 2
    """Seeds of each cell of Table 2 and of each tuned rival."""
    alphas: tuple[float, ...] = (0.01, 0.03, 0.05, 0.07, 0.09)
    """Lengths of LENA's warm-up, Table 3."""
    share: float = 0.5
    """Share of the layers that have a rate of their own, Fig. 4."""
    share_seeds: int = 3
    rivals: tuple[str, ...] = ()
    """Names of `experiments.rivals.plan.RIVALS`; none: all."""


FULL = Study()

_DIGITS = Task(dataset="digits", model="cnn", samples=1_337, validation=100, epochs=1.0)
SMOKE = Study(
    main=_DIGITS,
    small=replace(_DIGITS, model="cnn-bn", epochs=0.5, prefix="cifar-"),
    batch=16,
    evaluations=3,
    learners=(4,),
    few_learners=(4,),
    layer_learners=(4,),
    small_learners=(2,),
    rival_learners=(4,),
    rates=(0.02, 0.04),
    base_seeds=1,
    seeds=1,
    alphas=(0.05, 0.09),
    share_seeds=1,
    rivals=("lena", "lars", "dpsgd-exp-lena"),
)


def study(scale: Scale) -> Study:
    """The studies' size at a scale."""
    return SMOKE if scale.is_smoke else FULL


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A method: all of a run but n, its base rate and its seed."""

    name: str
    algorithm: str = "ssgd"
    topology: str = "ring"
    rate: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Options of [rate] over what all share: momentum 0.9, weight decay 5e-4, decay to 1 %."""


def cell(scaling: str, warmup: str, *, alpha: float | None = None, **share: float) -> Recipe:
    """SSGD with a scaling and a warm-up.

    Args:
        scaling: of gossip.rates.SCALINGS.
        warmup: of gossip.rates.WARMUPS.
        alpha: length of the warm-up as a share of the run; None: the method's own.
        **share: LENA's `share` and `share_seed`, if it is not on all layers.
    """
    name = f"{scaling}-{warmup}"
    rate: dict[str, Any] = {"scaling": scaling, "warmup": warmup}
    if alpha is not None:
        name, rate["warmup_share"] = f"{name}-alpha{alpha:g}", alpha
    if share:
        name = f"{name}-share{share['share']:g}.{share['share_seed']}"
        rate["scaling_options"] = tuple(f"{key}={value:g}" for key, value in share.items())
    return Recipe(name=name, rate=rate)


SINGLE = cell("none", "none")
"""The single worker's method, with n = 1: its error is the target."""


def lena_at(alpha: float) -> Recipe:
    """LENA with a length of its warm-up; at its own 5 % that of the other tables."""
    return cell("lena", "state-aware", alpha=None if alpha == 0.05 else alpha)


def preset(name: str, **rate: Any) -> Recipe:
    """One of gossip.config.presets.PRESETS, with what the user has to give."""
    table = PRESETS[name]["rate"]
    given = {key: tuple(v) if isinstance(v, list) else v for key, v in table.items()}
    return Recipe(name=name, rate=given | rate)


def key(task: Task, recipe: Recipe, n: int, lr: float, seed: int) -> str:
    """The name of a run."""
    return f"{task.prefix}{recipe.name}-n{n}-lr{lr:g}-seed{seed}"


def config(made: Study, task: Task, recipe: Recipe, n: int, lr: float, seed: int) -> Config:
    """The config of a run."""
    steps = task.epochs * task.samples / (n * made.batch)
    rate: dict[str, Any] = {"decay": "exponential", "momentum": 0.9, "weight_decay": 5e-4}
    return Config(
        algorithm=(recipe.algorithm,),
        epochs=task.epochs,
        seed=seed,
        gossip=Averaging(learners=n, topology=recipe.topology),
        data=Data(
            dataset=task.dataset,
            inputs="standardised",
            batch_size=made.batch,
            validation=task.validation,
        ),
        model=Model(model=task.model),
        rate=Rate(lr=lr, **(rate | dict(recipe.rate))),
        monitoring=Monitoring(
            monitor="cheap", monitor_every=max(1, math.floor(steps / made.evaluations))
        ),
    )


@dataclass
class Runs:
    """A dictionary name -> config that is filled in the order in which runs are wanted."""

    study: Study
    task: Task
    configs: dict[str, Config] = field(default_factory=dict)

    def add(self, recipe: Recipe, n: int, lr: float, seed: int) -> None:
        """Want one more run."""
        name = key(self.task, recipe, n, lr, seed)
        self.configs[name] = config(self.study, self.task, recipe, n, lr, seed)


def best_rate(
    task: Task, recipe: Recipe, n: int, rates: Sequence[float], error_of: ErrorOf
) -> float | None:
    """The rate with the lowest validation error on seed 0; None until all of them were tried."""
    errors = [error_of(key(task, recipe, n, lr, 0)) for lr in rates]
    found = [error for error in errors if error is not None]
    if len(found) < len(rates):
        return None
    return rates[found.index(min(found))]


def base_rate(made: Study, task: Task, error_of: ErrorOf) -> float | None:
    """The base rate of the task, tuned on the single worker alone."""
    return best_rate(task, SINGLE, 1, made.rates, error_of)


def base_grid(made: Study, task: Task) -> dict[str, Config]:
    """The runs that tune the base rate: the single worker at all rates, seed 0."""
    runs = Runs(made, task)
    for lr in made.rates:
        runs.add(SINGLE, 1, lr, 0)
    return runs.configs


def part(made: Study, name: str, lr: float) -> dict[str, Config]:
    """The runs of one of PARTS at the base rate."""
    runs = Runs(made, made.small if name == "cifar" else made.main)
    PARTS[name](runs, lr)
    return runs.configs


def _base(runs: Runs, lr: float) -> None:
    for seed in range(runs.study.base_seeds):
        runs.add(SINGLE, 1, lr, seed)


def _table2(runs: Runs, lr: float) -> None:
    _cells(runs, lr, range(1))


def _seeds(runs: Runs, lr: float) -> None:
    _cells(runs, lr, range(1, runs.study.seeds))


def _cells(runs: Runs, lr: float, seeds: range) -> None:
    for seed in seeds:
        for n in runs.study.learners:
            for scaling in SCALINGS:
                for warmup in WARMUPS:
                    runs.add(cell(scaling, warmup), n, lr, seed)


def _table3(runs: Runs, lr: float) -> None:
    for n in runs.study.few_learners:
        for alpha in runs.study.alphas:
            runs.add(lena_at(alpha), n, lr, 0)


def halves(made: Study) -> list[Recipe]:
    """LENA on a share of the layers, drawn at random several times."""
    return [
        cell("lena", "state-aware", share=made.share, share_seed=seed)
        for seed in range(made.share_seeds)
    ]


def _fig4(runs: Runs, lr: float) -> None:
    for n in runs.study.layer_learners:
        for recipe in halves(runs.study):
            runs.add(recipe, n, lr, 0)


SMALL = {name: cell(*parts) for name, parts in DIAGONAL.items()}
SMALL["DPSGD"] = Recipe(name="dpsgd-ring", algorithm="dpsgd")
"""Methods that are compared on the second task."""


def _cifar(runs: Runs, lr: float) -> None:
    for n in runs.study.small_learners:
        for recipe in SMALL.values():
            runs.add(recipe, n, lr, 0)


PARTS: dict[str, Callable[[Runs, float], None]] = {
    "base": _base,
    "table2": _table2,
    "seeds": _seeds,
    "table3": _table3,
    "fig4": _fig4,
    "cifar": _cifar,
}
"""Parts of the study: the single worker; Tables 1 and 2 on seed 0; their further seeds; ..."""
