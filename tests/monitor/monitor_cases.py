"""Small tasks, moments and communicators that the monitor's tests share."""

import threading
from functools import partial

import numpy as np
import torch
from hypothesis import strategies as st

from gossip.comm.base import Traffic
from gossip.comm.stacked import Stacked
from gossip.monitor import Moment
from gossip.monitor.effective_rate import MeanModelGradient
from gossip.optim.flat import FlatOptimizer
from gossip.task import Gradients
from tests import problems
from tests.machine import patience
from tests.problems import ArraySamples, complete
from tests.synchronous import ALGORITHMS

F64 = torch.float64


def digits_task(activation="relu", widths=(10, 10), dtype=F64):
    """All digits, to train on and to test on."""
    every = slice(None)
    return problems.digits_task(
        activation=activation, widths=widths, dtype=dtype, train=every, test=every
    )


class Quadratic:
    """L(w) = mean over samples c_i of (w - c_i)^T H (w - c_i) / 2: one Hessian for all batches."""

    dtype = F64
    looks_at_batch = False

    def __init__(self, d=6, samples=40, seed=0):
        rng = np.random.default_rng(seed)
        root = rng.standard_normal((d, d))
        self.d = d
        self.hessian = torch.from_numpy(root @ root.T / d)
        centers = torch.from_numpy(rng.standard_normal((samples, d)))
        self.train = ArraySamples(centers, torch.zeros(samples, dtype=torch.int64))

    def init(self, seed):
        return torch.from_numpy(np.random.default_rng(seed).standard_normal(self.d))

    def gradient(self, x, inputs, labels, *, seeds=None, exact=False):
        if len(x) == 1:
            inputs = inputs.flatten(0, 1).unsqueeze(0)
        offsets = x.unsqueeze(1) - inputs
        losses = torch.einsum("rbi,ij,rbj->rb", offsets, self.hessian, offsets).mean(dim=1) / 2
        return Gradients(offsets.mean(dim=1) @ self.hessian, losses)

    def gradient_sum(self, row, samples, indices):
        offsets = row - samples.batch(indices)[0]
        loss = torch.einsum("bi,ij,bj->", offsets, self.hessian, offsets) / 2
        return offsets.sum(dim=0) @ self.hessian, float(loss)

    def hessian_vector_sums(self, row, vectors, samples, indices, seed=None):
        return len(indices) * vectors @ self.hessian


def batches(task, n, t, batch=12, seed=7):
    """Mini-batches of n learners, [n, batch, ...]."""
    rng = np.random.default_rng([seed, t])
    return task.train.batch(rng.integers(len(task.train), size=(n, batch)))


def optimizer(task, make):
    layers = getattr(task, "layers", ())
    return lambda: FlatOptimizer(make, layers)


SGD = partial(torch.optim.SGD, lr=1.0)
MOMENTUM = partial(torch.optim.SGD, lr=1.0, momentum=0.9, weight_decay=1e-3)
ADAM = partial(torch.optim.Adam, lr=1.0)


def exact(vector):
    return MeanModelGradient(vector, float(vector @ vector), 0.0, 0.0, 1)


def vectors(count, d=30):
    seeds = st.integers(0, 2**31)
    return seeds.map(
        lambda s: torch.randn(count, d, dtype=F64, generator=torch.Generator().manual_seed(s))
    )


def moments(
    task, algorithm, n, steps, *, w=None, lr=0.3, make=SGD, batch=12, comm=None, start=None
):
    """The moments of the first steps, as a training loop would show them to a monitor."""
    comm = comm or Stacked(n)
    w = complete(n) if w is None else w
    rule = ALGORITHMS[algorithm](optimizer(task, make))
    state = rule.init(task.init(0) if start is None else start, len(comm.hosted))
    seen = []
    for t in range(steps):
        inputs, labels = batches(task, n, t, batch)
        here = slice(comm.hosted.start, comm.hosted.stop)
        inputs, labels = inputs[here], labels[here]
        gradient = partial(task.gradient, inputs=inputs, labels=labels)
        following, step = rule.step(state, gradient, w, lambda *_: lr, comm)
        shared = algorithm.startswith("ssgd")
        seen.append(
            Moment(
                t,
                lr,
                state.x,
                step.points,
                step.gradients,
                step.mixed,
                following.x,
                inputs,
                labels,
                shared,
                step.known_centre,
            )
        )
        state = following
    return seen


class Block:
    """One of several processes, as a thread: it meets the others at a barrier."""

    def __init__(self, n, process, processes, slots, barrier):
        local = n // processes
        self.n, self.process, self.processes = n, process, processes
        self.hosted = range(process * local, (process + 1) * local)
        self.traffic = Traffic()
        self._slots, self._barrier = slots, barrier

    def share(self, value):
        self._slots[self.process] = value
        self._barrier.wait()
        values = list(self._slots)
        self._barrier.wait()
        return values

    def mean(self, x):
        return torch.stack(self.share(x.sum(dim=0))).sum(dim=0) / (len(x) * self.processes)

    def gather(self, x):
        assert len(x) == len(self.hosted)
        return torch.cat(self.share(x))

    def start_mix(self, x, w):
        mixed = torch.from_numpy(w.toarray()[self.hosted.start : self.hosted.stop]) @ self.gather(x)
        return lambda: mixed

    def new_rows(self, like):
        return torch.empty_like(like)


def on_processes(n, processes, work):
    """work(comm) of each process, in process order."""
    slots, barrier = [None] * processes, threading.Barrier(processes, timeout=patience(60))
    results = [None] * processes

    def run(process):
        try:
            results[process] = work(Block(n, process, processes, slots, barrier))
        except BaseException:
            barrier.abort()
            raise

    threads = [threading.Thread(target=run, args=(p,)) for p in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
