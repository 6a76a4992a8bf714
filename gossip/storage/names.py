"""The names in a run folder, for whoever writes or reads one.

RUN/
    config.toml, summary.json, figure.png, .lock, and the trace (`gossip.trace.FILE`)
    checkpoint/step-000000500/manifest.json
"""

import re

CONFIG = "config.toml"
SUMMARY = "summary.json"
FIGURE = "figure.png"
LOCK = ".lock"
CHECKPOINTS = "checkpoint"
"""Checkpoint folder inside a run folder."""
MANIFEST = "manifest.json"
"""What a checkpoint is, in its folder; it has one when it is complete."""
STEP = re.compile(r"step-([0-9]{9,18})")
"""Folder of a complete checkpoint."""
FINAL = ("converged", "diverged")
"""Verdicts of a run that has come to its end."""


def step_folder(step: int) -> str:
    """The folder of the complete checkpoint after `step` steps."""
    return f"step-{step:09d}"
