"""Lightning 2 on gossip, without an adapter: python examples/lightning_module.py.

Or `mpirun -n 4 python examples/lightning_module.py`: each process is a Trainer of its own, with one
device, and the wrapper inside the LightningModule lets its learner talk to the others.
"""

import argparse

import lightning as L  # noqa: N812 - its own name for itself
import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from gossip import Gossip
from gossip.data import fetch, splits
from gossip.models import mlp

parser = argparse.ArgumentParser()
parser.add_argument("--dataset", default="mnist-5k", help="or mnist, fashion-mnist, digits")
parser.add_argument("--epochs", type=int, default=2)
options = parser.parse_args()


class Classifier(L.LightningModule):
    """As any other; only the network is wrapped."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.model = Gossip(network, topology="one-peer-exponential")

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """The loss of a batch."""
        return cross_entropy(self.model(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Plain, local to the learner."""
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


dataset = fetch(options.dataset)
train, test, _ = splits(dataset)
torch.manual_seed(0)
classifier = Classifier(mlp(dataset.input_shape, dataset.num_classes))
model = classifier.model
learner, n = model.comm.process, model.comm.n
size = len(train) // n  # every learner takes as many steps
own = TensorDataset(*train.batch(np.arange(n * size)[learner::n]))
trainer = L.Trainer(
    max_epochs=options.epochs,
    accelerator="cpu",
    devices=1,
    logger=False,
    gradient_clip_val=5.0,
    accumulate_grad_batches=2,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(classifier, DataLoader(own, batch_size=32, shuffle=True, drop_last=True))
with model.average() as mean, torch.no_grad():
    inputs, labels = test.batch(np.arange(len(test)))
    accuracy = (mean(inputs).argmax(dim=1) == labels).double().mean()
if learner == 0:
    steps = model.get_extra_state()["step"]
    print(f"accuracy of the mean model, n = {n}, {steps} steps: {accuracy:.2%}")
