"""What a module remembers beside its parameters and buffers, as values that can be compared."""

import itertools
import random
from collections import deque
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn

PLAIN = (bool, int, float, complex, str, bytes, type(None))
DEEPEST = 6
"""How far objects in objects are looked into."""
OWN = frozenset(vars(nn.Module()))
"""Attributes that any module has: parameters, buffers, modules, hooks."""


def attributes(module: nn.Module) -> dict[str, object]:
    """Numbers, texts, tensors and states of generators in the attributes of all its modules.

    Returns:
        path, such as "head.calls" or "head.seen[3]" -> something to compare.
    """
    found: dict[str, object] = {}
    seen: set[int] = set()
    for prefix, part in module.named_modules():
        own = {name: value for name, value in vars(part).items() if name not in OWN}
        for name, value in own.items():
            found.update(_leaves(value, f"{prefix}.{name}".lstrip("."), seen, 0))
    return found


def _leaves(value: object, path: str, seen: set[int], depth: int) -> Iterator[tuple[str, object]]:
    if isinstance(value, (*PLAIN, itertools.count)):
        yield path, repr(value)
    elif isinstance(value, Tensor):
        yield path, _digest(value)
    elif isinstance(value, np.ndarray):
        yield path, (value.dtype.str, value.shape, value.tobytes())
    elif isinstance(value, torch.Generator):
        yield path, value.get_state().numpy().tobytes()
    elif isinstance(value, np.random.Generator):
        yield path, repr(value.bit_generator.state)
    elif isinstance(value, np.random.RandomState):
        yield path, repr(value.get_state())
    elif isinstance(value, random.Random):
        yield path, value.getstate()
    elif depth < DEEPEST and id(value) not in seen:
        seen.add(id(value))
        for name, part in _parts(value):
            yield from _leaves(part, path + name, seen, depth + 1)


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What a container, or an object of somebody's own class, consists of."""
    if isinstance(value, Mapping):
        yield "#", len(value)
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, (list, tuple, deque, set, frozenset)):
        yield "#", len(value)
        yield from ((f"[{i}]", part) for i, part in enumerate(value))
    elif type(value).__module__.partition(".")[0] not in ("torch", "builtins", "functools"):
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict) and not isinstance(value, (type, nn.Module)):
            yield from ((f".{name}", part) for name, part in own.items())


def _digest(tensor: Tensor) -> object:
    """Of a tensor's numbers, or where they cannot be read, of how often they were written."""
    try:
        return (
            tensor.dtype,
            tensor.shape,
            tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes(),
        )
    except (RuntimeError, TypeError):  # sparse, quantised, of vmap
        return id(tensor), tensor._version
