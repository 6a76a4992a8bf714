"""Contours of the loss about the runs of one seed: a picture, which nothing is judged by."""

import json
from pathlib import Path
from typing import Any

from experiments.common.scale import Scale
from experiments.flatness.plan import shown
from experiments.flatness.rows import complete, measured
from experiments.flatness.size import Size, study
from gossip.config import Config

FILE = "flatness_contours.json"
DIGITS = 4
"""Of each number in the file: its lines in a picture are thicker."""

Contours = dict[str, dict[str, Any]]
"""By run `step`, -1 if the loss never was so low, and `contours`, see `Landscape.contours`."""


def missing(size: Size, there: Contours) -> dict[str, Config]:
    """The runs to be shown that the file does not have."""
    return {name: config for name, config in shown(size).items() if name not in there}


def load(scale: Scale) -> Contours:
    """Those of the runs that are finished and measured, with those in the file."""
    size, found = study(scale), read(scale)
    for name, run in complete(scale, shown(size)).items():
        made = measured(run.folder, size.shown_level) or {"step": -1, "contours": {}}
        found[name] = {"step": made["step"], "contours": _rounded(made["contours"])}
    return {name: found[name] for name in shown(size) if name in found}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def write(found: Contours, results: Path) -> None:
    """Write the file, a run to a line."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(run)}" for name, run in found.items())
    results.mkdir(parents=True, exist_ok=True)
    (results / FILE).write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def read(scale: Scale) -> Contours:
    """What `write` wrote; nothing if there is no file."""
    path = scale.results / FILE
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
