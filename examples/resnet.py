"""A small ResNet-18 on images like CIFAR's: mpirun -n 4 python examples/resnet.py.

Averaged weights make every learner's BatchNorm statistics invalid: they are measured anew, on the
mean weights, before the mean model is judged.
"""

import argparse

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from gossip import Gossip, place
from gossip.models import MODELS

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=8, help="channels of the first stage; 64 in full")
parser.add_argument("--samples", type=int, default=1024, help="of each learner")
parser.add_argument("--epochs", type=int, default=3)
options = parser.parse_args()


def images(count: int, seed: int) -> TensorDataset:
    """Noise around one of ten fixed patterns, [count, 3, 32, 32]; no download."""
    patterns = torch.randn(10, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=draw)
    noise = 4 * torch.randn(count, 3, 32, 32, generator=draw)
    return TensorDataset(patterns[labels] + noise, labels)


device = place("auto")  # a host's GPUs are dealt to its processes; without any, the CPU
module = MODELS["resnet18"]((3, 32, 32), 10, width=options.width).to(device)
model = Gossip(module, topology="ring", buffers="recalibrate")
learner, n = model.comm.process, model.comm.n
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
loader = DataLoader(images(options.samples, seed=1 + learner), batch_size=64, shuffle=True)
inputs, labels = (part.to(device) for part in images(512, seed=10_000).tensors)

for epoch in range(options.epochs):
    for x, y in loader:
        optimizer.zero_grad()
        cross_entropy(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    spread = model.monitor()["consensus_distance"]
    model.eval()
    with model.average(loader) as mean, torch.no_grad():
        accuracy = (mean(inputs).argmax(dim=1) == labels).double().mean()
    model.train()
    if learner == 0:
        print(f"epoch {epoch + 1}: accuracy {accuracy:.1%}, consensus distance {spread:.3g}")
