"""Methods of the DATE study: an optimizer with a schedule, and the rates that it is tried with."""

from dataclasses import dataclass
from typing import Any

from gossip.config.presets import PRESETS

SOLVERS: dict[str, dict[str, Any]] = {
    "sgd": {"optimizer": "sgd"},
    "momentum": {"optimizer": "sgd", "momentum": 0.9},
    "nesterov": {"optimizer": "nesterov"},
    "adagrad": {"optimizer": "adagrad"},
    "rmsprop": {"optimizer": "rmsprop"},
    "adam": {"optimizer": "adam"},
    "adadelta": {"optimizer": "adadelta"},
    "lars": {"optimizer": "lars"},
}
"""Those of Fig. 13, and LARS."""

TOGGLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "sqrt": {"scaling": "sqrt"},
    "legw": {"warmup": "legw"},
    "roller-coaster": {"decay": "roller-coaster"},
    "ratio": {"layer_ratio": "fixed"},
}
"""Fig. 10: each adds its own to those before it; all of them are DATE."""

MILESTONES = (10 / 30, 20 / 30, 27 / 30)
"""Milestones of the manual schedule, as shares of the run."""


@dataclass(frozen=True)
class Method:
    """A solver with a schedule, on a task."""

    solver: str
    schedule: str
    """`manual`, `date`, `constant`, `corrected`, `lars`, or one of TOGGLES."""
    rates: tuple[float, ...] = ()
    """Base rates tried at first at the baseline's batch."""
    largest: tuple[float, ...] = ()
    """... at the largest; none: it is tuned at the baseline's alone, and has its rate there."""
    like: str = ""
    """Method whose rate at the baseline's batch it takes, if it is not tuned at all."""


def recipe(schedule: str) -> dict[str, Any]:
    """The [rate] table of a schedule, but for rate, baseline and length of the warm-up."""
    if schedule == "date":
        return dict(PRESETS["date"]["rate"])
    if schedule in RECIPES:
        return dict(RECIPES[schedule])
    chosen: dict[str, Any] = {}
    for toggle, adds in TOGGLES.items():
        chosen |= adds
        if toggle == schedule:
            return chosen
    raise KeyError(schedule)


RECIPES: dict[str, dict[str, Any]] = {
    "manual": {
        "scaling": "linear",
        "warmup": "fixed",
        "warmup_options": ("start=0",),
        "decay": "step",
        "decay_at": MILESTONES,
    },
    "constant": {},
    "corrected": {"layer_ratio": "fixed"},
    "lars": {
        "warmup": "fixed",
        "warmup_share": 0.1,
        "decay": "polynomial",
        "decay_options": ("power=2",),
    },
}
"""Schedules besides DATE and its parts; `corrected` is a constant rate with DATE's layer ratio."""

LENET = {
    "rmsprop-manual": Method(
        "rmsprop", "manual", rates=(1.25e-3, 2.5e-3, 5e-3), largest=(3.125e-4, 6.25e-4, 1.25e-3)
    ),
    "rmsprop-date": Method("rmsprop", "date", rates=(2.5e-4, 5e-4, 1e-3)),
    "momentum-manual": Method(
        "momentum", "manual", rates=(0.025, 0.05, 0.1), largest=(0.00625, 0.0125, 0.025)
    ),
    "momentum-date": Method("momentum", "date", rates=(0.005, 0.01, 0.02)),
    "lars": Method("lars", "lars", largest=(2.5, 5.0, 10.0)),
    **{
        f"rmsprop-{toggle}": Method("rmsprop", toggle, like="rmsprop-manual")
        for toggle in TOGGLES
    },
}  # fmt: skip
"""DATE's rates are lower than the manual schedule's because its layer ratios go up to 10; the
manual schedule's at the largest batch are lower because linear scaling multiplies them by 8."""

LSTM = {
    "date": Method("momentum", "date", rates=(0.015, 0.03, 0.06)),
    "adam": Method("adam", "constant", rates=(5e-4, 1e-3, 2e-3), largest=(2e-3, 4e-3, 8e-3)),
    "sgd": Method("sgd", "constant", largest=(0.5, 1.0, 2.0)),
    "momentum": Method("momentum", "constant", largest=(0.1, 0.2, 0.4)),
    "nesterov": Method("nesterov", "constant", largest=(0.1, 0.2, 0.4)),
    "adagrad": Method("adagrad", "constant", largest=(0.01, 0.02, 0.04)),
    "rmsprop": Method("rmsprop", "constant", largest=(1e-3, 2e-3, 4e-3)),
    "adadelta": Method("adadelta", "constant", largest=(1.0, 2.0, 4.0)),
    "rmsprop-corrected": Method("rmsprop", "corrected", largest=(1e-4, 2e-4, 4e-4)),
}
"""Rivals have constant rates, tuned at every batch."""

BACKWARDS = {
    "date": LSTM["date"],
    "adam": Method("adam", "constant", rates=(1e-3, 2e-3, 4e-3), largest=(2e-3, 4e-3, 8e-3)),
}
"""The same two on the sequence-to-sequence toy."""

WORDS = {name: LSTM[name] for name in ("date", "adam")}
"""... and on words, where both are tuned and judged by the loss, the logarithm of perplexity."""

BY_LOSS = ("words",)
"""Tasks of which that holds."""

METHODS = {"lenet": LENET, "lstm": LSTM, "backwards": BACKWARDS, "words": WORDS}
"""By task and name."""
