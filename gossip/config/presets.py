"""Presets: a paper's method or recipe by name, as tables of a config file."""

import argparse
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gossip.config import Config, from_tables, load, refuse_script, to_tables
from gossip.config.places import from_copy
from gossip.errors import UserError, lookup
from gossip.storage import folder as run_folder

PRESETS: dict[str, dict[str, Any]] = {
    # Goyal et al., arXiv 1706.02677, with the length that AdaScale's and LENA's papers give its
    # warm-up: arXiv 2007.05105, Section 4; WWW 2022, Section 4.1.
    "lsw": {
        "algorithm": ["ssgd"],
        "rate": {"scaling": "linear", "warmup": "fixed", "warmup_share": 0.055},
    },
    # Johnson et al., arXiv 2007.05105, Algorithm 1: the schedule runs in tau.
    "adascale": {
        "algorithm": ["ssgd"],
        "rate": {"scaling": "adascale", "scaling_options": ["progress=tau"]},
    },
    # Ko et al., WWW 2022, Algorithm 1; alpha of Section 4.1.
    "lena": {
        "algorithm": ["ssgd"],
        "rate": {"scaling": "lena", "warmup": "state-aware", "warmup_share": 0.05},
    },
    # The authors' code where it differs from their paper, with the optimizer and the decay of
    # Section 4.1; see docs/mathematics.md#choices-where-a-paper-is-open.
    "lena-official": {
        "algorithm": ["ssgd"],
        "rate": {
            "scaling": "lena",
            "scaling_options": ["average=zero", "clip=upper", "clipped_state=whole"],
            "warmup": "state-aware",
            "warmup_share": 0.05,
            "warmup_options": ["accumulate=after"],
            "decay": "exponential",
            "decay_factor": 0.01,
            "momentum": 0.9,
            "weight_decay": 5e-4,
        },
    },
    # You et al., SC 2019, Algorithm 1. The baseline that it scales is the user's: --lr,
    # --baseline-batch and --warmup-epochs.
    "date": {
        "algorithm": ["ssgd"],
        "rate": {
            "scaling": "sqrt",
            "warmup": "legw",
            "decay": "roller-coaster",
            "layer_ratio": "fixed",
        },
    },
    # Goyal et al., arXiv 1706.02677, Sections 2 and 5.1; Table 1 of arXiv 2112.01433.
    "goyal": {
        "epochs": 100.0,
        "rate": {
            "lr": 0.1,
            "baseline_batch": 256,
            "scaling": "linear",
            "warmup": "fixed",
            "warmup_epochs": 5.0,
            "decay": "step",
            "decay_at": [0.3, 0.6, 0.9],
            "decay_factor": 0.1,
            "momentum": 0.9,
            "weight_decay": 1e-4,
        },
    },
    # arXiv 2112.01433, Section 4.2 and Table 2: "annealing by 1/sqrt(2) for the remaining 10
    # epochs" is read as at the start of each of them.
    "ibm-asr": {
        "epochs": 20.0,
        "rate": {
            "lr": 0.1,
            "baseline_batch": 256,
            "scaling": "linear",
            "warmup": "fixed",
            "warmup_epochs": 10.0,
            "decay": "step",
            "decay_at": [epoch / 20 for epoch in range(10, 20)],
            "decay_factor": 0.5**0.5,
        },
    },
    # arXiv 2112.01433, Section 4.5, Fig. 3 and Table 5: the longest of its warm-ups.
    "wolf-naacl": {
        "rate": {
            "optimizer": "adam",
            "lr": 2.5e-4,
            "warmup": "fixed",
            "warmup_steps": 250,
            "warmup_options": ["start=0"],
            "decay": "cosine",
            "decay_factor": 0.0,
        },
    },
}
"""What `--preset` offers: only what defines a method, in the shape of config.toml. The recipes
(goyal, ibm-asr, wolf-naacl) leave the algorithm to the user."""

LENGTHS = ("warmup_steps", "warmup_epochs", "warmup_share")
"""Units of the length of a warm-up."""

GOES_WITH = {
    "scaling": ("scaling_options",),
    "warmup": ("warmup_options", *LENGTHS),
    "decay": ("decay_at", "decay_factor", "decay_options"),
    "layer_ratio": ("layer_ratio_limits",),
}
"""Options that mean nothing to another choice of the same part."""

_SAME = (frozenset({"steps", "epochs"}), frozenset(LENGTHS))
"""Options that say one thing in several units."""


def apply(name: str, config: Config, said: Collection[str] = ()) -> Config:
    """`config` with a preset laid over it, and nothing left of the parts that it replaces.

    Args:
        name: one of `PRESETS`.
        config: what holds where the preset says nothing.
        said: names of options that the user gave, such as "lr": those, also where the preset
            gives them in another unit, are left as they are.

    Raises:
        UserError: there is no such preset; the message suggests the nearest.
    """
    kept = set(said).union(*(units for units in _SAME if units & set(said)))
    kept |= {option for part in GOES_WITH if part in said for option in GOES_WITH[part]}
    preset = lookup(PRESETS, name, "preset")
    replaced = [part for part in GOES_WITH if part in preset["rate"] and part not in said]
    tables = to_tables(config)
    for option in (option for part in replaced for option in GOES_WITH[part]):
        if option not in kept:
            tables["rate"].pop(option, None)
    for key, value in preset.items():
        if isinstance(value, dict):
            tables[key] |= {k: v for k, v in value.items() if k not in kept}
        elif key not in kept:
            tables[key] = value
    return from_tables(tables)


def flags(argv: Sequence[str]) -> set[str]:
    """Names of the options that a command line gives, such as "batch_size"."""
    return {a.split("=")[0].removeprefix("--").replace("-", "_") for a in argv if a[:2] == "--"}


def starting_point(argv: Sequence[str]) -> tuple[Path | None, str | None, Config]:
    """--config and --preset of a command line, and the config that its other flags change.

    That is the defaults under the config file under the preset: a complete config.toml would leave
    nothing of a preset. For --resume it is the config of the run.

    Raises:
        UserError: an unknown preset, or a config file that cannot be run, as of a script's run.
    """
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--config", type=Path)
    first.add_argument("--preset")
    first.add_argument("--resume", type=Path)
    known = first.parse_known_args(argv)[0]
    said = flags(argv)
    if known.resume:
        if not (known.resume / run_folder.CONFIG).is_file():
            raise UserError(
                f"--resume {known.resume}: no run there, as there is no {run_folder.CONFIG}"
            )
        refuse_script(known.resume / run_folder.CONFIG)
        config = from_copy(load(known.resume / run_folder.CONFIG, said), known.resume)
        if "steps" in said and "epochs" not in said:  # one thing in two units
            config = replace(config, epochs=None)
        return known.config, known.preset, config
    if known.config:
        refuse_script(known.config)
    config = load(known.config, said) if known.config else Config()
    if known.preset:
        config = apply(known.preset, config, said)
    return known.config, known.preset, config
