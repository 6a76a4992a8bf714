"""Batches that grow on a Dask cluster whose workers grow with them.

python examples/damped_dask.py starts workers here; --scheduler tcp://... takes those of a cluster.
Needs the extras gossip-sgd[sklearn,dask].
"""

import argparse

import numpy as np
from distributed import Client, LocalCluster
from sklearn.datasets import load_digits
from torch.optim import SGD

from gossip.damping import GeoDamp
from gossip.estimators import DampedClassifier


def main() -> None:
    """Train in this process and on the cluster: the same weights, to rounding."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scheduler", help="address of a cluster that is running")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--workers", type=int, default=2, help="at most so many")
    options = parser.parse_args()

    X, y = load_digits(return_X_y=True)
    model = DampedClassifier(
        module__widths=(512, 512),
        optimizer=SGD,
        optimizer__momentum=0.9,
        lr=0.05,
        batch_size=GeoDamp,
        batch_size__initial=64,
        batch_size__delay=options.epochs / 3,
        batch_size__factor=4,
        grads_per_worker=128,  # a worker more for every so many samples in the batch
        max_workers=options.workers,
        max_epochs=options.epochs,
        random_state=0,
        verbose=1,
    )
    here = model.fit(X / 16, y)
    weights = [p.detach().numpy().copy() for p in here.module_.parameters()]

    cluster = options.scheduler or LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=":0"
    )
    with Client(cluster) as client:
        print(f"dashboard: {client.dashboard_link}")
        model.set_params(engine=client).fit(X / 16, y)
    if not options.scheduler:
        cluster.close()

    for epoch in model.history:
        last = epoch["batches"][-1]
        print(
            f"epoch {epoch['epoch']}: batch {last['batch_size']}, workers {last['n_workers']}, "
            f"loss {epoch['train_loss']:.3f}, {epoch['dur']:.1f} s"
        )
    now = [p.detach().numpy() for p in model.module_.parameters()]
    gap = max(float(np.abs(a - b).max()) for a, b in zip(weights, now, strict=True))
    print(f"accuracy {model.score(X / 16, y):.2%}; largest difference of a weight: {gap:.1e}")


if __name__ == "__main__":  # worker processes import this file
    main()
