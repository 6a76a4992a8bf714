"""The plan of the DATE study names every run; rates are chosen by trials in place of guesses.

A plan is a function of what is finished: trials of a tuned rate come first, and with all of them
there, the runs at the chosen one. Runs of one task see equally many samples.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from experiments.date.size import Study
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.config.presets import PRESETS

STUDY = "date"
"""Name of the folder that the runs lie in."""

PARTS = ("lenet", "ratios", "lipschitz", "needle", "lstm", "lstm-seeds", "long")
"""Parts of the study, the most important first: the order in which they are made."""

SOLVERS: dict[str, dict[str, Any]] = {
    "momentum": {"optimizer": "sgd", "momentum": 0.9},
    "rmsprop": {"optimizer": "rmsprop"},
    "adam": {"optimizer": "adam"},
    "lars": {"optimizer": "lars"},
}

TOGGLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "sqrt": {"scaling": "sqrt"},
    "legw": {"warmup": "legw"},
    "roller-coaster": {"decay": "roller-coaster"},
    "ratio": {"layer_ratio": "fixed"},
}
"""Fig. 10: each adds its own to those before it; the last is DATE at the plain baseline's rate."""

MILESTONES = (10 / 30, 20 / 30, 27 / 30)
"""Milestones of the manual schedule, as shares of the run."""

ErrorOf = Callable[[str], float | None]
"""Final validation error of a run by its name, infinite without a finite loss; None: not run."""


def runs(part: str, size: Study, error: ErrorOf) -> dict[str, Config]:
    """The runs of one of PARTS that can be named by now: all of them once all trials are done."""
    return {
        "lenet": _lenet,
        "ratios": _ratios,
        "lipschitz": _lipschitz,
        "needle": _needle,
        "lstm": _lstm,
        "lstm-seeds": _lstm_seeds,
        "long": _long,
    }[part](size, error)


def count(part: str, size: Study) -> int:
    """Number of runs of a part, which does not depend on the rates that are chosen."""
    return len(runs(part, size, lambda key: 0.0))


def best(keys: Sequence[str], error: ErrorOf) -> int | None:
    """Index of the best trial, the first of equals; None while one is missing or none has a model.

    Judged by the final validation error; the test set chooses nothing.
    """
    errors = [error(key) for key in keys]
    known = [e for e in errors if e is not None]
    if len(known) < len(keys) or min(known) == float("inf"):
        return None
    return known.index(min(known))


def name(model: str, method: str, batch: int, lr: float, seed: int) -> str:
    """The name of a run: everything in which it differs from the others."""
    return f"{model}-{method}-b{batch}-lr{lr:.5g}-seed{seed}"


def recipe(method: str) -> dict[str, Any]:
    """The [rate] table of a method, but for rate, baseline and length of the warm-up."""
    if method == "date":
        return dict(PRESETS["date"]["rate"])
    if method == "manual":
        return {
            "scaling": "linear",
            "warmup": "fixed",
            "warmup_options": ("start=0",),
            "decay": "step",
            "decay_at": MILESTONES,
        }
    chosen: dict[str, Any] = {}
    for toggle, adds in TOGGLES.items():
        chosen |= adds
        if toggle == method:
            return chosen
    raise KeyError(method)


def lenet_rates(size: Study, solver: str, error: ErrorOf) -> dict[str, float | None]:
    """Baseline rates of the manual schedule and of DATE, tuned at B_0; None: not known yet."""
    of = size.lenet
    tuned = dict(of.solvers)[solver]
    grids = {"manual": tuned.manual, "date": tuned.date}
    return {
        method: _chosen(grid, error, lambda lr, m=method: lenet_name(of.baseline, solver, m, lr))
        for method, grid in grids.items()
    }


def lenet_name(batch: int, solver: str, method: str, lr: float, seed: int = 0) -> str:
    """The name of a run of the part lenet."""
    return name("lenet", f"{solver}-{method}", batch, lr, seed)


def needle_centre(size: Study, error: ErrorOf) -> float | None:
    """The best rate of the coarse grid."""
    return _chosen(size.needle.coarse, error, lambda lr: needle_name(size, lr))


def needle_name(size: Study, lr: float, seed: int = 0) -> str:
    """The name of a run of the part needle."""
    return name("needle", "lars", size.needle.batch, lr, seed)


def lstm_rate(size: Study, method: str, batch: int, error: ErrorOf) -> float | None:
    """The rate of a method at a batch: DATE's is that of the baseline; None: not known."""
    if method == "date":
        batch = size.lstm.baseline
    grid = {rival: rates for rival, _, rates in lstm_rivals(size, batch)} | {"date": size.lstm.date}
    if method not in grid:
        return None
    return _chosen(grid[method], error, lambda lr: name("lstm", method, batch, lr, 0))


def lstm_rivals(size: Study, batch: int) -> list[tuple[str, str, tuple[float, ...]]]:
    """Names, solvers and rates of the rivals at a batch."""
    wide = [("adam-wide", "adam", size.lstm.wide)] if batch == size.lstm.largest else []
    return [*size.lstm.rivals, *wide]


def _chosen(grid: Sequence[float], error: ErrorOf, key: Callable[[float], str]) -> float | None:
    index = best([key(lr) for lr in grid], error)
    return None if index is None else grid[index]


def _config(
    size: Study,
    model: str,
    solver: str,
    *,
    batch: int,
    epochs: float,
    lr: float,
    seed: int,
    every: int,
    validation: bool = True,
    lipschitz: int = 0,
    **rate: Any,
) -> Config:
    """One learner with the whole batch: the arithmetic of SSGD for any n, for the least time."""
    return Config(
        algorithm=("ssgd",),
        epochs=epochs,
        seed=seed,
        gossip=Averaging(learners=1, topology="complete", backend="stacked"),
        data=Data(
            dataset=size.dataset,
            batch_size=batch,
            validation=size.validation if validation else 0,
        ),
        model=Model(model=model),
        rate=Rate(lr=lr, **SOLVERS[solver], **rate),
        monitoring=Monitoring(monitor="cheap", monitor_every=every, lipschitz_samples=lipschitz),
    )


def _every(size: Study, batch: int, epochs: float, evaluations: int) -> int:
    """Steps between two evaluations."""
    return max(1, round(epochs * size.samples / batch / evaluations))


def _lenet_run(
    size: Study, batch: int, solver: str, method: str, lr: float, seed: int = 0
) -> tuple[str, Config]:
    of = size.lenet
    rate = recipe(method)
    if "warmup" in rate:
        rate["warmup_epochs"] = of.warmup * of.epochs
    drawn = batch == of.batch and solver == "rmsprop" and method == "date" and seed == 0
    config = _config(
        size,
        "lenet",
        solver,
        batch=batch,
        epochs=of.epochs,
        lr=lr,
        seed=seed,
        every=of.ratio_every if drawn else _every(size, batch, of.epochs, of.evaluations),
        baseline_batch=of.baseline,
        **rate,
    )
    return lenet_name(batch, solver, method, lr, seed), config


def _lenet(size: Study, error: ErrorOf) -> dict[str, Config]:
    """Trials at B_0; then the baseline's other seeds, and everything at B."""
    of, made = size.lenet, []
    for solver, tuned in of.solvers:
        run = partial(_lenet_run, size)
        made += [run(of.baseline, solver, "manual", lr) for lr in tuned.manual]
        made += [run(of.baseline, solver, "date", lr) for lr in tuned.date]
        rates = lenet_rates(size, solver, error)
        for seed in range(of.seeds):
            for method, lr in rates.items():
                if lr is not None:
                    made.append(run(of.batch, solver, method, lr, seed))
            if (lr := rates["manual"]) is not None:
                made.append(run(of.baseline, solver, "manual", lr, seed))
        if (lr := rates["manual"]) is not None:
            made += [run(of.batch, solver, toggle, lr) for toggle in TOGGLES]
    return dict(made)


LONG = ("manual", "date")
"""Methods that are run for the paper's own length."""


def _long(size: Study, error: ErrorOf) -> dict[str, Config]:
    """The paper's 30 epochs at the rates of the short runs: at B, and the baseline at B_0."""
    of = size.lenet
    long = replace(size, lenet=replace(of, epochs=of.long_epochs))
    made = {}
    for solver, _ in of.solvers:
        rates = lenet_rates(size, solver, error)
        for method, batch in (("manual", of.baseline), *((name, of.batch) for name in LONG)):
            if (lr := rates[method]) is not None:
                key, config = _lenet_run(long, batch, solver, method, lr)
                made[long_name(key)] = config
    return made


def long_name(key: str) -> str:
    """The run of the part lenet called `key`, for the paper's length."""
    return f"long-{key.partition('-')[2]}"


def _ratios(size: Study, error: ErrorOf) -> dict[str, Config]:
    """DATE on RMSProp and the trials of its rate: runs of lenet, none of its own."""
    return {
        key: config
        for key, config in _lenet(size, error).items()
        if key.startswith("lenet-rmsprop-date-") and key.endswith("-seed0")
    }


def _lipschitz(size: Study, error: ErrorOf) -> dict[str, Config]:
    of = size.lipschitz
    return {
        name("lipschitz", "momentum", batch, of.lr, seed): _config(
            size,
            "lenet",
            "momentum",
            batch=batch,
            epochs=of.epochs,
            lr=of.lr,
            seed=seed,
            every=every,
            validation=False,
            lipschitz=of.probe,
            baseline_batch=of.baseline,
            scaling="sqrt",
        )
        for seed in range(of.seeds)
        for batch, every in of.every
    }


def needle_rates(size: Study, error: ErrorOf) -> list[float]:
    """The fine grid, or nothing as long as its centre is not known."""
    centre = needle_centre(size, error)
    return [] if centre is None else [centre * size.needle.step**k for k in size.needle.fine]


def _needle(size: Study, error: ErrorOf) -> dict[str, Config]:
    """Warm-up over a tenth, then LARS's own polynomial decay of power 2."""
    of = size.needle
    wanted = [(lr, 0) for lr in of.coarse]
    wanted += [(lr, seed) for seed in range(of.seeds) for lr in needle_rates(size, error)]
    return {
        needle_name(size, lr, seed): _config(
            size,
            "lenet",
            "lars",
            batch=of.batch,
            epochs=of.epochs,
            lr=lr,
            seed=seed,
            every=_every(size, of.batch, of.epochs, 3),
            warmup="fixed",
            warmup_share=0.1,
            decay="polynomial",
            decay_options=("power=2",),
        )
        for lr, seed in wanted
    }


def _lstm_run(
    size: Study, method: str, solver: str, batch: int, lr: float, seed: int = 0
) -> tuple[str, Config]:
    of = size.lstm
    rate: dict[str, Any] = {}
    if method == "date":
        warmup = of.warmup * of.epochs * of.baseline / of.largest
        rate = recipe("date") | {"baseline_batch": of.baseline, "warmup_epochs": warmup}
    config = _config(
        size,
        "lstm",
        solver,
        batch=batch,
        epochs=of.epochs,
        lr=lr,
        seed=seed,
        every=_every(size, batch, of.epochs, 3),
        **rate,
    )
    return name("lstm", method, batch, lr, seed), config


def _lstm(size: Study, error: ErrorOf) -> dict[str, Config]:
    made = []
    for batch in size.lstm.batches:
        lr = lstm_rate(size, "date", batch, error)
        if batch == size.lstm.baseline:
            made += [_lstm_run(size, "date", "momentum", batch, rate) for rate in size.lstm.date]
        elif lr is not None:
            made.append(_lstm_run(size, "date", "momentum", batch, lr))
        for rival, solver, rates in lstm_rivals(size, batch):
            made += [_lstm_run(size, rival, solver, batch, rate) for rate in rates]
    return dict(made)


def _lstm_seeds(size: Study, error: ErrorOf) -> dict[str, Config]:
    """More seeds of what was chosen, at the largest batch."""
    batch, made = size.lstm.largest, []
    solvers = {"date": "momentum"} | {rival: s for rival, s, _ in lstm_rivals(size, batch)}
    for seed in range(1, size.lstm.seeds):
        for method, solver in solvers.items():
            if (lr := lstm_rate(size, method, batch, error)) is not None:
                made.append(_lstm_run(size, method, solver, batch, lr, seed))
    return dict(made)
