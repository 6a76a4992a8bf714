"""The global random numbers that other people's code draws: torch's, NumPy's and Python's."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

CPU = torch.device("cpu")


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
