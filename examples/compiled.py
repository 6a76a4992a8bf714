"""A plain loop with torch.compile on gossip: mpirun -n 4 python examples/compiled.py.

The wrapped module is compiled as any other: forward and backward pass are one graph each, and the
averaging stays outside of them. Ragged batches would compile a second graph: they are left out.
"""

import argparse
import time

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from gossip import Gossip
from gossip.data import fetch, splits
from gossip.models import mlp

parser = argparse.ArgumentParser()
parser.add_argument("--dataset", default="digits", help="or mnist, fashion-mnist, mnist-5k")
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--compiler", default="inductor", help="torch.compile's backend")
options = parser.parse_args()

dataset = fetch(options.dataset)
train, test, _ = splits(dataset)
torch.manual_seed(0)
model = Gossip(mlp(dataset.input_shape, dataset.num_classes), topology="one-peer-exponential")
compiled = torch.compile(model, backend=options.compiler)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
learner, n = model.comm.process, model.comm.n

size = len(train) // n  # every learner takes as many steps
own = TensorDataset(*train.batch(np.arange(n * size)[learner::n]))
order = torch.Generator().manual_seed(learner)
loader = DataLoader(own, batch_size=32, shuffle=True, drop_last=True, generator=order)
start = time.perf_counter()
for epoch in range(options.epochs):
    for inputs, labels in loader:
        optimizer.zero_grad()
        cross_entropy(compiled(inputs), labels).backward()
        optimizer.step()
    if epoch == 0:
        begun = time.perf_counter() - start  # most of it compiling
with model.average() as mean, torch.no_grad():
    inputs, labels = test.batch(np.arange(len(test)))
    accuracy = (mean(inputs).argmax(dim=1) == labels).double().mean()
if learner == 0:
    print(f"first epoch: {begun:.1f} s; all: {time.perf_counter() - start:.1f} s")
    print(f"accuracy of the mean model, n = {n}, {options.compiler}: {accuracy:.2%}")
