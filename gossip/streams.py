"""Random numbers are addressed, not consumed.

A generator is made from (seed, stream, address...), for example (seed, BATCHES, learner, step).
No order of calls, number of processes or resume can then change a batch, a shuffle or a noise
vector, and two backends draw the same numbers without a message. `seeded` gives an address also to
what other people's code consumes: the global generators of torch, NumPy and Python.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

CPU = torch.device("cpu")

INIT = 0
"""Initial weights: (seed, INIT)."""
PARTITION = 1
"""Which samples belong to which learner: (seed, PARTITION)."""
SHUFFLE = 2
"""Order of the samples in an epoch: (seed, SHUFFLE, [learner,] epoch)."""
BATCHES = 3
"""Draws with replacement: (seed, BATCHES, learner, step)."""
NOISE = 4
"""SSGD*'s delta_j: (seed, NOISE, learner, step)."""
PROBE = 5
"""Samples the monitor measures on: (seed, PROBE, step)."""
LAYERS = 6
"""Layers with a rate of their own, where only some have one: (seed, LAYERS)."""
STRAGGLER = 7
"""How slow the learners are, one after the other: (seed, STRAGGLER, step)."""
ASYNC = 8
"""AD-PSGD's partner of a learner's k-th gradient: (seed, ASYNC, learner, k)."""
JITTER = 12
"""How late simulated messages are, in the order of W's entries: (seed, JITTER, step)."""
FAILURE = 10
"""When simulated learners fail, one after the other: (seed, FAILURE, step)."""
INJECTED = 13
"""Signs, moments and combinations of injected noise, the same for all: (seed, INJECTED, step)."""
TWIN = 14
"""Where a twin run begins apart from the run itself: (seed, TWIN)."""
COMPRESSION = 11
"""What compressors draw, one part of a message after the other: (seed, COMPRESSION, learner, step,
part); the same for all: (seed, COMPRESSION)."""

MASK = 15
"""Which coordinates SPARTA averages: (seed, MASK, step), or (seed, MASK, cycle)."""
LANDSCAPE = 16
"""Vectors, perturbations and directions about a mean model: (seed, LANDSCAPE, purpose, draw)."""

PASS = 9
"""What a model draws in a training pass, such as Dropout's masks: (seed, PASS, learner, step)."""


def generator(seed: int, stream: int, *address: int) -> np.random.Generator:
    """The generator at (seed, stream, *address); about 20 us to make."""
    return np.random.default_rng([seed, stream, *address])


@contextmanager
def seeded(seed: int, device: torch.device = CPU) -> Iterator[None]:
    """In this block the global generators begin at `seed`; after it they are where they were.

    Args:
        seed: from 0 up to below 2^63.
        device: whose generator is looked after beside the CPU's.
    """
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - other people's
    with torch.random.fork_rng(devices=_with_own_generator(device)):
        # Without a GPU not by torch.manual_seed, which notes down who called: 1 ms each time.
        seed_all = (
            torch.manual_seed if device.type == "cuda" else torch.default_generator.manual_seed
        )
        seed_all(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002


def _with_own_generator(device: torch.device) -> list[torch.device]:
    return [device] if device.type == "cuda" and torch.cuda.is_available() else []


def where(device: torch.device = CPU) -> tuple[object, ...]:
    """Where the global generators are, to compare: what draws from them moves them on."""
    _, keys, *numpy = np.random.get_state(legacy=True)  # noqa: NPY002
    torches = [torch.get_rng_state()]
    torches += [torch.cuda.get_rng_state(own) for own in _with_own_generator(device)]
    return (
        random.getstate(),
        np.asarray(keys).tobytes(),
        *numpy,
        *(state.numpy().tobytes() for state in torches),
    )
