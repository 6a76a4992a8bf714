"""A learner in each worker of Ray Train: python examples/jobs/ray_train.py --storage /shared/ray.

Ray lets the workers find each other, and begins them again where one is lost, on as many as there
are then: all go on from the mean model of the last epoch. For Ray 2.51 or newer, whose Train is V2.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch.nn.functional import cross_entropy

from gossip import Gossip, leave
from gossip.data import fetch, splits
from gossip.models import mlp


def learn(options: dict) -> None:
    """What each worker does."""
    dataset = fetch(options["dataset"])
    train, test, _ = splits(dataset)
    module, begun = mlp(dataset.input_shape, dataset.num_classes), 0
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            kept = torch.load(Path(folder) / "mean.pt")
        module.load_state_dict(kept["weights"])
        begun = kept["epochs"]
    model = Gossip(module, topology="one-peer-exponential")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    learner, n = model.comm.process, model.comm.n
    for epoch in range(begun, options["epochs"]):
        order = np.random.default_rng(epoch).permutation(len(train))  # the same for all
        for batch in np.array_split(order[learner::n], len(train) // (n * 64)):
            inputs, labels = train.batch(batch)
            optimizer.zero_grad()
            cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        with model.average() as mean, torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            inputs, labels = test.batch(np.arange(len(test)))
            accuracy = float((mean(inputs).argmax(dim=1) == labels).double().mean())
            state = {"weights": mean.state_dict(), "epochs": epoch + 1}
            torch.save(state, Path(folder) / "mean.pt")
            ray.train.report(
                {"accuracy": accuracy, "learners": n},
                checkpoint=Checkpoint.from_directory(folder) if learner == 0 else None,
            )
    leave()  # the worker lives on, and Ray kills it


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset", default="mnist-5k", help="or mnist, fashion-mnist, digits")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--workers", type=int, nargs=2, default=(2, 4), help="at least, at most")
    parser.add_argument("--storage", help="folder that all nodes share")
    options = parser.parse_args()
    trainer = TorchTrainer(
        learn,
        train_loop_config={"dataset": options.dataset, "epochs": options.epochs},
        scaling_config=ScalingConfig(num_workers=tuple(options.workers)),
        run_config=RunConfig(
            name="gossip",
            storage_path=options.storage,
            failure_config=FailureConfig(max_failures=3),
        ),
    )
    print(trainer.fit().metrics)
