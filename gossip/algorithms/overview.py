"""The table of docs/methods.md: `python -m gossip.algorithms.overview` prints it."""

from functools import partial

import torch

from gossip.algorithms import ALGORITHMS, Algorithm, AlgorithmSettings
from gossip.algorithms import pattern as phases
from gossip.algorithms.options import WithOptions
from gossip.algorithms.properties import needs
from gossip.optim import FlatOptimizer

HEAD = (
    "| `--algorithm` | is | sent per step and learner | keeps | needs of a topology | options |\n"
    "|---|---|---|---|---|---|\n"
)


def table() -> str:
    """A row for each algorithm with a common step."""
    return HEAD + "".join(_row(name) for name in ALGORITHMS)


def _row(name: str) -> str:
    line = ALGORITHMS[name]
    made = line(_plain, AlgorithmSettings("awc", 0.1, "eval", 0))
    summary = (made.__doc__ or "").strip().splitlines()[0].rstrip(".")
    kept = ", ".join(_kept(made)) or "-"
    wanted = "-" if made.shared else needs(made.properties)
    if not phases.mixes(made.pattern):
        wanted = "W plays no part"
    options = line.options if isinstance(line, WithOptions) else []
    given = ", ".join(f"{key}={getattr(made, key)}" for key in options) or "-"
    return f"| `{name}` | {summary} | {sent(made.pattern)} | {kept} | {wanted} | {given} |\n"


def sent(pattern: phases.Pattern) -> str:
    """What a step sends, in words: M a row, deg the neighbours it goes to."""
    return "; ".join(said for phase in pattern if (said := _said(phase))) or "nothing"


def _said(phase: phases.Phase) -> str:
    match phase:
        case phases.Mix(rows=rows, numbers=numbers):
            return f"{_times(rows)}M deg" + (" + deg numbers" if numbers else "")
        case phases.Mean(rows=0, numbers=numbers):
            return f"{numbers} numbers"
        case phases.Mean(rows=rows):
            return f"{_times(rows, '2')} M (n - 1)/n"
        case phases.AllGather(rows=rows):
            return f"{_times(rows)}M (n - 1)"
        case phases.Partner(rows=rows):
            return f"{_times(rows)}M to one other"
        case phases.Overlapped(first=first):
            return f"{_said(first)}, while it computes"
        case phases.Every(steps=steps, phase=phases.Late(steps=late, phase=inner)):
            taken = "a step" if late == 1 else f"{late} steps"
            return f"{_said(inner)} every {steps} steps" + f", while it takes {taken}" * (late > 0)
        case phases.Every(steps=steps, phase=inner):
            return f"{_said(inner)} every {steps} steps" if steps > 1 else _said(inner)
        case phases.Until(steps=steps, phase=inner):
            return f"{_said(inner)} in the first {steps} steps"
    return ""


def _times(rows: float, one: str = "") -> str:
    """So many rows, as a factor; `one` for a single one."""
    factor = float(one or 1) * rows
    return one if rows == 1 else f"{factor:.3g}" + ("" if one else " ")


def _kept(made: Algorithm) -> list[str]:
    start = getattr(made, "start", None)
    names = [] if start is None else [*start(torch.zeros(1, 1)), *getattr(made, "later", ())]
    return [name.replace("_", " ") for name in names]


def _plain() -> FlatOptimizer:
    return FlatOptimizer(partial(torch.optim.SGD, lr=1.0), ())


if __name__ == "__main__":
    print(table(), end="")
