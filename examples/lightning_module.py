"""Lightning 2 on gossip, without an adapter: python examples/lightning_module.py.

Or `mpirun -n 4 python examples/lightning_module.py`: each process is a Trainer of its own, with one
device, and the wrapper inside the LightningModule lets its learner talk to the others. Each keeps a
checkpoint of its own; with --resume, to more --epochs, all go on bit for bit.
"""

import argparse
from pathlib import Path

import lightning as L  # noqa: N812 - its own name for itself
import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from gossip import Gossip
from gossip.data import fetch, splits
from gossip.models import mlp

parser = argparse.ArgumentParser()
parser.add_argument("--dataset", default="mnist-5k", help="or mnist, fashion-mnist, digits")
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--out", type=Path, default=Path("runs/lightning"))
parser.add_argument("--resume", action="store_true", help="go on from the checkpoints in --out")
options = parser.parse_args()


class Classifier(L.LightningModule):
    """As any other; only the network is wrapped."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.model = Gossip(network, topology="one-peer-exponential")

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """The loss of a batch."""
        return cross_entropy(self.model(batch[0]), batch[1])

    def configure_optimizers(self) -> tuple[list, list]:
        """Plain, local to the learner."""
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]


dataset = fetch(options.dataset)
train, test, _ = splits(dataset)
torch.manual_seed(0)
classifier = Classifier(mlp(dataset.input_shape, dataset.num_classes))
model = classifier.model
learner, n = model.comm.process, model.comm.n
samples = TensorDataset(*train.batch(np.arange(len(train))))
# As many for each; Lightning tells it the epoch, so that the order is the same behind a resume.
own = DistributedSampler(samples, n, learner, drop_last=True)
checkpoint = options.out / f"learner-{learner}.ckpt"
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
batches = DataLoader(samples, batch_size=32, sampler=own, drop_last=True)
trainer.fit(classifier, batches, ckpt_path=checkpoint if options.resume else None)
trainer.save_checkpoint(checkpoint)
with model.average() as mean, torch.no_grad():
    inputs, labels = test.batch(np.arange(len(test)))
    accuracy = (mean(inputs).argmax(dim=1) == labels).double().mean()
if learner == 0:
    steps = model.get_extra_state()["step"]
    print(f"accuracy of the mean model, n = {n}, {steps} steps: {accuracy:.2%}")
