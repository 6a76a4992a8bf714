"""Run by test_ray_train, where Ray is installed: the example on two workers, one is killed.

Usage: on_ray.py FOLDER. Worker 1 is killed once, when Ray has the checkpoint of the first epoch.
Prints a line of JSON: how each worker was started each time, and what came out in the end.
"""

import json
import os
import runpy
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path

import ray
import ray.train
import torch
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

EXAMPLE = Path(__file__).parents[2] / "examples" / "jobs" / "ray_train.py"
SNAPSHOT = "checkpoint_manager_snapshot.json"
"""What Ray keeps of the checkpoints that it knows, in the folder of the run."""
SECONDS = 60.0


def learn(options: dict) -> None:
    """A worker: notes how it was started, and does what the example does."""
    from gossip.comm.startup.launchers import launched
    from tests.jobs.recorded import RECORDED

    place, again = launched(), ray.train.get_checkpoint() is not None
    report, folder = ray.train.report, Path(options["folder"])
    missing = sorted(RECORDED["Ray Train"].variables.keys() - os.environ.keys())
    started = {"place": asdict(place), "again": again, "missing": missing}
    (folder / f"started-{again:d}-{place.rank}.json").write_text(json.dumps(started))

    def report_and_die(*words, **named) -> None:
        report(*words, **named)
        end = time.monotonic() + SECONDS
        while not any(folder.glob(f"*/{SNAPSHOT}")) and time.monotonic() < end:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)

    if place.rank == 1 and not again:
        ray.train.report = report_and_die
    runpy.run_path(str(EXAMPLE))["learn"](options)


def main() -> None:
    folder = Path(sys.argv[1])
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    trainer = TorchTrainer(
        learn,
        train_loop_config={"dataset": "digits", "epochs": 2, "folder": str(folder)},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="gossip", storage_path=str(folder), failure_config=FailureConfig(max_failures=1)
        ),
    )
    result = trainer.fit()
    with result.checkpoint.as_directory() as kept:
        epochs = torch.load(Path(kept) / "mean.pt")["epochs"]
    starts = [json.loads(path.read_text()) for path in sorted(folder.glob("started-*.json"))]
    print(json.dumps({"starts": starts, "metrics": result.metrics, "epochs": epochs}))
    ray.shutdown()


if __name__ == "__main__":
    main()
