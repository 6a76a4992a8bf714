"""MNIST on gossip: python examples/mnist.py, or mpirun -n 4 python examples/mnist.py."""

import argparse

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from gossip import Gossip
from gossip.data import fetch, splits
from gossip.models import mlp

parser = argparse.ArgumentParser()
parser.add_argument("--dataset", default="mnist", help="or mnist-5k, fashion-mnist, digits")
parser.add_argument("--epochs", type=int, default=2)
options = parser.parse_args()

dataset = fetch(options.dataset)
train, test, _ = splits(dataset)
model = Gossip(mlp(dataset.input_shape, dataset.num_classes), topology="one-peer-exponential")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
learner, n = model.comm.process, model.comm.n

for epoch in range(options.epochs):
    order = np.random.default_rng(epoch).permutation(len(train))  # the same for all
    for batch in np.array_split(order[learner::n], len(train) // (n * 64)):
        inputs, labels = train.batch(batch)
        optimizer.zero_grad()
        cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    with model.average() as mean, torch.no_grad():
        inputs, labels = test.batch(np.arange(len(test)))
        accuracy = (mean(inputs).argmax(dim=1) == labels).double().mean()
    if learner == 0:
        print(f"epoch {epoch + 1}: accuracy of the mean model, n = {n}: {accuracy:.2%}")
