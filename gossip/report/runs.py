"""Finished, diverged and killed runs, read back from their folders."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gossip import trace
from gossip.storage import folder as run_folder
from gossip.storage.tables import flat

NAMES = {"dpsgd": "DPSGD", "ssgd": "SSGD", "ssgd-star": "SSGD*"}
"""Algorithms as the literature writes them; others keep their name."""

_NOT_A_SETTING = ("record", "out", "name")
_PLAIN = ("algorithm", "topology", "dataset", "model", "backend", "optimizer")
"""Settings whose value says by itself what it is."""


@dataclass(frozen=True)
class Run:
    """What one run left behind."""

    folder: Path
    config: dict[str, Any]
    """The tables of config.toml."""
    summary: dict[str, Any]
    """summary.json; of a killed run, what its trace tells, with the verdict `interrupted`."""
    trace: pa.Table
    label: str
    """Short and unique among the runs it was loaded with."""

    def column(self, name: str) -> np.ndarray:
        """A column of the trace, [rows]; NaN where nothing was recorded."""
        return trace.column(self.trace, name)

    def setting(self, name: str) -> Any:
        """A setting by its last name, from the config or else the summary; None if in neither."""
        for key, value in flat(self.config).items():
            if key.split(".")[-1] == name and not key.startswith("record."):
                return value
        value = self.summary.get(name)
        return value.get("name") if isinstance(value, Mapping) else value

    def number(self, *path: str) -> float:
        """A number of the summary, as `number("wall_seconds", "gradient")`; NaN if not there."""
        value: Any = self.summary
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if is_number else math.nan

    @property
    def error(self) -> str:
        """What its errors are: the share of labels that are wrong, or another."""
        return run_folder.error(self.config)

    @property
    def verdict(self) -> str:
        """converged, diverged or interrupted."""
        return str(self.summary.get("verdict", "unknown"))


def load_runs(paths: Iterable[Path]) -> list[Run]:
    """The runs of `gossip.storage.folder.find_runs`, each with a label of its own.

    Raises:
        UserError: no path holds a run, or a file in it cannot be read.
    """
    runs = [_load(folder) for folder in run_folder.find_runs(paths)]
    return [replace(run, label=label) for run, label in zip(runs, labels(runs), strict=True)]


def labels(runs: list[Run]) -> list[str]:
    """What tells the runs apart: the settings that differ, then the folder if need be."""
    settings = [flat(run.config) for run in runs]
    keys = _differing(settings)
    names = [_items(s, keys) for s in settings]
    names = [
        name or _algorithm(run) or run.folder.name for name, run in zip(names, runs, strict=True)
    ]
    names = _told_apart(names, [run.folder.name for run in runs])
    return _told_apart(names, [str(run.folder) for run in runs])


def test_error(runs: Sequence[Run]) -> str:
    """What the column test_error of runs is, `test error` or `test 1 - R^2`."""
    return run_folder.test_error(run.config for run in runs)


def apart_from_seed(runs: list[Run]) -> list[str]:
    """A name for each run that those share which differ in nothing but the seed."""
    settings = [
        {key: value for key, value in flat(run.config).items() if key.split(".")[-1] != "seed"}
        for run in runs
    ]
    keys = _differing(settings)
    names = [_items(s, keys) for s in settings]
    return [
        (name or _algorithm(run)) if run.setting("seed") is not None else run.label
        for name, run in zip(names, runs, strict=True)
    ]


def settings_that_differ(runs: list[Run]) -> list[str]:
    """Last names of the settings that are not the same in all runs, the algorithm first."""
    keys = _differing([flat(run.config) for run in runs])
    return list(dict.fromkeys(key.split(".")[-1] for key in keys))


def heading(runs: list[Run]) -> str:
    """What the runs have in common, in one line."""
    forms = {
        "algorithm": lambda value: NAMES.get(value, value),
        "dataset": lambda value: {"mnist": "MNIST"}.get(value, value),
        "model": lambda value: _model(value, runs[0].setting("widths")),
        "learners": lambda value: f"n = {value} learners",
        "topology": _topology,
        "lr": lambda value: f"learning rate {as_written(value)}",
        "scaling": lambda value: "" if value == "none" else f"{value} scaling",
        "warmup": lambda value: "" if value == "none" else f"{value} warm-up",
        "batch_size": lambda value: f"batch {value} per learner",
    }
    parts = []
    for name, form in forms.items():
        values = [run.setting(name) for run in runs]
        if values and values[0] is not None and all(value == values[0] for value in values):
            parts.append(str(form(values[0])))
    return ", ".join(part for part in parts if part)


def _load(folder: Path) -> Run:
    table = trace.load(folder)
    config = run_folder.read_config(folder)
    summary = run_folder.read_summary(folder) or _interrupted(table)
    return Run(folder, config, summary, table, folder.name)


def _interrupted(table: pa.Table) -> dict[str, Any]:
    """The summary of a run that was killed before it could write one."""
    steps = trace.column(table, "step")
    summary: dict[str, Any] = {
        "verdict": "interrupted",
        "steps": int(steps[-1]) + 1 if len(steps) else 0,
    }
    for name in ("train_loss", "test_error"):
        values = trace.column(table, name)
        finite = values[np.isfinite(values)]
        if len(finite):
            summary[name] = float(finite[-1])
            summary[f"best_{name}"] = float(finite.min())
    return summary


def _differing(settings: list[dict[str, Any]]) -> list[str]:
    """The settings that are not the same in all, the algorithm first.

    What a script's run does not say of itself, which is most, is no difference.
    """

    def values(key: str) -> set[str]:
        known = (s for s in settings if key in s or not s.get("record.script"))
        return {as_written(s.get(key)) for s in known}

    keys = dict.fromkeys(key for s in settings for key in s)
    differing = [
        key
        for key in keys
        if not set(key.split(".")) & set(_NOT_A_SETTING) and len(values(key)) > 1
    ]
    return sorted(differing, key=lambda key: key.split(".")[-1] != "algorithm")


def _told_apart(names: list[str], extra: list[str]) -> list[str]:
    """`names`, with `extra` behind those that occur more than once."""
    return [
        name if name == more or names.count(name) == 1 else f"{name} ({more})"
        for name, more in zip(names, extra, strict=True)
    ]


def _model(name: str, widths: Any) -> str:
    return f"MLP {'-'.join(map(str, widths))}" if name == "mlp" and widths else name


def _topology(value: Any) -> str:
    """A name, or that of a file without the way to it."""
    return Path(value).name if Path(str(value)).is_absolute() else str(value)


def _algorithm(run: Run) -> str:
    name = str(run.setting("algorithm") or "")
    return NAMES.get(name, name)


def _items(settings: dict[str, Any], keys: list[str]) -> str:
    """What a run has of these settings; nothing of options that it has none of."""
    return ", ".join(filter(None, (_item(key, settings[key]) for key in keys if key in settings)))


def _item(key: str, value: Any) -> str:
    name = key.split(".")[-1]
    if isinstance(value, list) and (not value or name.endswith("_options")):
        return as_written(value)  # each is key=value, and says what it is
    if name == "topology":
        return _topology(value)
    if name == "algorithm":
        return NAMES.get(str(value), str(value))
    return as_written(value) if name in _PLAIN else f"{name.replace('_', ' ')} {as_written(value)}"


def as_written(value: Any) -> str:
    """The value of a setting as one writes it, options as on the command line."""
    if isinstance(value, list):
        return " ".join(map(as_written, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
