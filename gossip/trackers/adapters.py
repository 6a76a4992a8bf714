"""What each tracker's library wants to hear of a run; imported where it is used, an extra each."""

from collections.abc import Callable, Mapping
from pathlib import Path
from time import time
from typing import Any, NamedTuple, Protocol

PROJECT = "gossip"
"""What the runs are filed under, where a tracker has projects or experiments."""


class About(NamedTuple):
    """The run, as a tracker is told of it."""

    name: str
    folder: Path
    settings: dict[str, Any]
    """Of its config, by their names in one level."""


class Tracker(Protocol):
    """One open run of a tracker. Called by one thread; it may take its time, and may raise."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Values of one step; steps only grow."""
        ...

    def close(self) -> None:
        """There are no more."""
        ...


class Tensorboard:
    """Event files in the run folder: `tensorboard --logdir runs`."""

    def __init__(self, about: About) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(about.folder / "tensorboard"))
        text = "\n".join(f"    {name} = {value}" for name, value in about.settings.items())
        self._writer.add_text("settings", text)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """As scalars."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class Wandb:
    """Weights & Biases; offline with WANDB_MODE=offline."""

    def __init__(self, about: About) -> None:
        import wandb

        settings, folder = about.settings, str(about.folder)
        self._run = wandb.init(project=PROJECT, name=about.name, dir=folder, config=settings)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """As one row."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """Send what is left."""
        self._run.finish()


class Trackio:
    """Trackio, on this machine: `trackio show --project gossip`."""

    def __init__(self, about: About) -> None:
        import trackio

        self._run = trackio.init(project=PROJECT, name=about.name, config=about.settings)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """As one row."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """Write what is left."""
        self._run.finish()


class Mlflow:
    """MLflow, at MLFLOW_TRACKING_URI."""

    def __init__(self, about: About) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self._client, self._metric = MlflowClient(), Metric
        found = self._client.get_experiment_by_name(PROJECT)
        experiment = self._client.create_experiment(PROJECT) if found is None else None
        number = experiment if found is None else found.experiment_id
        self._run = self._client.create_run(number, run_name=about.name).info.run_id
        params = [Param(name, str(value)[:500]) for name, value in about.settings.items()]
        for start in range(0, len(params), 100):  # as many as it takes at once
            self._client.log_batch(self._run, params=params[start : start + 100])

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """As one batch."""
        now = int(1000 * time())
        metrics = [self._metric(name, value, now, step) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self) -> None:
        """The run has ended."""
        self._client.set_terminated(self._run)


TRACKERS: dict[str, Callable[[About], Tracker]] = {
    "tensorboard": Tensorboard,
    "wandb": Wandb,
    "trackio": Trackio,
    "mlflow": Mlflow,
}
"""What `--log` offers."""
