"""The plan of the comparison has the methods, the base rates each is tried with, and their runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from experiments.lena import plan as lena_plan
from experiments.lena.plan import SINGLE, ErrorOf, Recipe, Runs, Study, best_rate, cell
from experiments.lena.rows import Row
from experiments.lena.tables import Rows
from gossip.config import Config

PEAKS = (0.04, 0.08, 0.16, 0.32)
"""Rates after scaling that SGD with momentum is tried with; LSW at 0.64 died in a pilot, n = 64."""
TRUST = 0.02
"""LARS's coefficient. With its usual 0.001, rates are so large that the biases, which it leaves to
plain momentum, would diverge: here is no BatchNorm that would make them harmless."""
BASELINE_EPOCHS = 0.01
"""DATE's w_0 for B_0 = B: 17 warm-up updates whatever n, 4 % of the run at n = 16."""
ADAPTIVE = (0.02, 0.04, 0.08, 0.16)
"""Base rates of the methods that measure their own scaling."""

Rates = Callable[[Study, int], tuple[float, ...]]
"""Base rates that a method is tried with at n."""


@dataclass(frozen=True)
class Rival:
    """A method and the base rates it is tried with."""

    label: str
    recipe: Recipe
    rates: Rates


def _over(power: float) -> Rates:
    """PEAKS over n^power, the scaling's own factor."""

    def rates(study: Study, n: int) -> tuple[float, ...]:
        return tuple(peak / n**power for peak in PEAKS[-len(study.rates) :])

    return rates


def _of(*values: float) -> Rates:
    """The same base rates at every n."""
    return lambda study, n: values[: len(study.rates)]


def _dpsgd(name: str, topology: str = "one-peer-exponential", **rate: Any) -> Recipe:
    return Recipe(name=name, algorithm="dpsgd", topology=topology, rate=rate)


_WARM = {"scaling": "linear", "warmup": "fixed"}

RIVALS = {
    "ssgd": Rival("SSGD", SINGLE, _over(0)),
    "lsw": Rival("LSW", cell("linear", "fixed"), _over(1)),
    "date": Rival(
        "DATE",
        lena_plan.preset(
            "date", baseline_batch=lena_plan.FULL.batch, warmup_epochs=BASELINE_EPOCHS
        ),
        _of(0.0025, 0.005, 0.01, 0.02),
    ),
    "adascale": Rival("AdaScale", cell("adascale", "none"), _of(*ADAPTIVE)),
    "lena": Rival("LENA", cell("lena", "state-aware"), _of(*ADAPTIVE)),
    "lars": Rival(
        "LARS",
        Recipe(
            name="lars",
            rate={
                "optimizer": "lars",
                "optimizer_options": (f"trust_coefficient={TRUST:g}",),
                "warmup": "fixed",
            },
        ),
        _of(0.2, 0.4, 0.8, 1.6),
    ),
    "lamb": Rival(
        "LAMB",
        Recipe(name="lamb", rate={"optimizer": "lamb", "momentum": None, "warmup": "fixed"}),
        _of(0.02, 0.04, 0.08, 0.16),
    ),
    "dpsgd-ring": Rival("DPSGD, ring", _dpsgd("dpsgd-ring", "ring"), _over(0)),
    "dpsgd-exp": Rival("DPSGD, one-peer", _dpsgd("dpsgd-exp"), _over(0)),
    "dpsgd-exp-lsw": Rival("DPSGD, one-peer, LSW", _dpsgd("dpsgd-exp-lsw", **_WARM), _over(1)),
    "dpsgd-exp-lena": Rival(
        "DPSGD, one-peer, LENA",
        _dpsgd("dpsgd-exp-lena", scaling="lena", warmup="state-aware"),
        _of(*ADAPTIVE),
    ),
    "dpsgd-exp-ratio": Rival(
        "DPSGD, one-peer, layer ratio",
        _dpsgd("dpsgd-exp-ratio", layer_ratio="fixed"),
        _of(0.0025, 0.005, 0.01, 0.02),
    ),
}
"""The methods, by name. Linear scaling without warm-up is not here: with a base rate of its own it
is SSGD, and DPSGD, at n times the rate, run for run."""


def rivals(made: Study) -> dict[str, Rival]:
    """The methods that take part in a study."""
    return {name: RIVALS[name] for name in made.rivals or RIVALS}


def tuning(made: Study) -> dict[str, Config]:
    """The single worker's and every rival's trials, seed 0; n by n, so that one is soon whole."""
    runs = Runs(made, made.main)
    for lr in made.rates:
        runs.add(SINGLE, 1, lr, 0)
    for n in made.rival_learners:
        for rival in rivals(made).values():
            for lr in rival.rates(made, n):
                runs.add(rival.recipe, n, lr, 0)
    return runs.configs


def chosen(made: Study, error: ErrorOf) -> dict[tuple[str, int], float]:
    """The best base rate of each rival and n all of whose trials are there."""
    found = {}
    for n in made.rival_learners:
        for name, rival in rivals(made).items():
            lr = best_rate(made.main, rival.recipe, n, rival.rates(made, n), error)
            if lr is not None:
                found[name, n] = lr
    return found


def final(made: Study, error: ErrorOf) -> dict[str, Config]:
    """All seeds at the best rates, as far as they are known."""
    runs, single = Runs(made, made.main), lena_plan.base_rate(made, made.main, error)
    for seed in range(made.seeds):
        if single is not None:
            runs.add(SINGLE, 1, single, seed)
        for (name, n), lr in chosen(made, error).items():
            runs.add(RIVALS[name].recipe, n, lr, seed)
    return runs.configs


def rates_tried(rows: Rows, name: str, n: int) -> dict[float, Row | None]:
    """The trials of a rival at n, by base rate; None: not run yet."""
    made, recipe = rows.study, RIVALS[name].recipe
    return {
        lr: rows.found.get(lena_plan.key(made.main, recipe, n, lr, 0))
        for lr in RIVALS[name].rates(made, n)
    }


def tuned_rows(rows: Rows, name: str, n: int) -> list[Row]:
    """A rival's runs over seeds at its best base rate, those that are there."""
    lr = chosen(rows.study, rows.error_of).get((name, n))
    return [] if lr is None else rows.group(RIVALS[name].recipe, n, lr=lr)
