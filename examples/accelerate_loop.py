"""A loop of Hugging Face's accelerate on gossip: mpirun -n 4 python examples/accelerate_loop.py.

No adapter: the wrapped module goes through `prepare` as any other. With accumulated gradients,
clipping, a schedule, an average over time (EMA), evaluation on the mean model, early stopping, and
a file per learner from which it goes on.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

from gossip import Averager, Gossip
from gossip.data import fetch, splits
from gossip.models import mlp


def main(argv: Sequence[str] | None = None) -> tuple[nn.Module, nn.Module]:
    """Train; gives this learner's module and the average of its weights over time."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--stop-at", type=float, default=0.99, help="accuracy that is enough")
    parser.add_argument("--out", type=Path, default=Path("runs/accelerate"))
    parser.add_argument("--resume", action="store_true", help="go on from the files in --out")
    options = parser.parse_args(argv)

    dataset = fetch("digits")
    train, test, _ = splits(dataset)
    torch.manual_seed(0)
    model = Gossip(mlp(dataset.input_shape, dataset.num_classes), topology="one-peer-exponential")
    average = AveragedModel(model.module, multi_avg_fn=get_ema_multi_avg_fn(0.98))
    link = Averager(average.parameters(), topology="ring")  # only for the mean of all learners
    os.environ.pop("LOCAL_RANK", None)  # torchrun's: accelerate would make one DDP model of all
    learner, n = model.comm.process, model.comm.n

    size = len(train) // n  # every learner takes as many steps
    own = TensorDataset(*train.batch(np.arange(n * size)[learner::n]))
    order = torch.Generator().manual_seed(learner)
    loader = DataLoader(own, batch_size=16, shuffle=True, drop_last=True, generator=order)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(loader))
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)

    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"learner-{learner}.pt"
    kept = {"model": model, "average": average, "optimizer": optimizer, "schedule": schedule}
    begun = 0
    if options.resume:
        states = torch.load(file)
        for name, what in kept.items():
            what.load_state_dict(states[name])
        order.set_state(states["order"])
        begun = states["epochs"]

    def accuracy(of: nn.Module) -> float:
        inputs, labels = test.batch(np.arange(len(test)))
        return float((of(inputs).argmax(dim=1) == labels).double().mean())

    for epoch in range(begun, options.epochs):
        for inputs, labels in loader:
            with accelerator.accumulate(model):
                accelerator.backward(cross_entropy(model(inputs), labels))
                accelerator.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                average.update_parameters(model.module)
        states = {name: what.state_dict() for name, what in kept.items()}
        torch.save({**states, "order": order.get_state(), "epochs": epoch + 1}, file)
        with torch.no_grad():
            with model.average() as mean:
                of_mean = accuracy(mean)
            with link.average():  # it is linear: the mean of all averages is that of the mean model
                of_average = accuracy(average)
        if learner == 0:
            shown = f"{of_mean:.2%}, averaged over time: {of_average:.2%}"
            print(f"epoch {epoch + 1}: accuracy of the mean model, n = {n}: {shown}", flush=True)
        # A learner that stops stops all.
        if any(model.comm.share(of_mean >= options.stop_at)):
            break
    return model.module, average


if __name__ == "__main__":
    main()
