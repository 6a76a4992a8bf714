"""A script with its effective rate: python examples/recorded.py, or with mpirun -n 4 before it.

Behind it, `python -m gossip.report runs/recorded` shows how fast the mean model really descends.
"""

import argparse

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import gossip
from gossip.data import fetch, splits
from gossip.models import mlp

parser = argparse.ArgumentParser()
parser.add_argument("--dataset", default="mnist-5k", help="or mnist, fashion-mnist, digits")
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--out", default="runs/recorded", help="the run folder")
options = parser.parse_args()

dataset = fetch(options.dataset)
train, _, _ = splits(dataset)
torch.manual_seed(0)  # so that it is the same run each time
model = gossip.Gossip(mlp(dataset.input_shape, dataset.num_classes), topology="ring")
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
learner, n = model.comm.process, model.comm.n


def loss(module, batch):
    """The mean loss over a batch."""
    inputs, labels = batch
    return cross_entropy(module(inputs), labels)


own = np.arange(len(train))[learner::n]
probe = [train.batch(part) for part in np.array_split(own, 10)]  # all learners': the whole set
recording = gossip.record(model, options.out, every=10, probe=probe, loss=loss, whole=True)
with recording:
    for epoch in range(options.epochs):
        order = np.random.default_rng([epoch, learner]).permutation(own)[: len(train) // n]
        parts = np.array_split(order, len(train) // (n * 64))
        for batch in recording.batches(train.batch(part) for part in parts):
            optimizer.zero_grad()
            value = loss(model, batch)
            recording.note(train_loss=value)
            value.backward()
            optimizer.step()
if learner == 0:
    print(f"n = {n}: recorded in {options.out}")
