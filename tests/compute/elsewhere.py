"""A device that is not there: CPU tensors that say, and are held to it, that they are on a GPU.

Under `Elsewhere` a tensor is on the GPU if it was made with `device=ELSEWHERE`, moved there, or
computed from such a tensor; `tensor.device` says so. As on a GPU, an operation on tensors of both
places, and NumPy's look at one of them, is an error, unless CUDA allows it: numbers (0-dimensional
tensors) of the CPU as operands, and indices on the CPU.
"""

from contextlib import ExitStack

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

ELSEWHERE = torch.device("cuda", 0)
HERE = torch.device("cpu")

MOVES = {"copy_", "_to_copy"}
"""Operations whose tensors may be in different places."""
INDEXED = {"index", "index_put", "index_put_", "_unsafe_index"}


def is_elsewhere(tensor: Tensor) -> bool:
    return getattr(tensor.untyped_storage(), "elsewhere", False)


def put(tensors, elsewhere: bool):
    for tensor in tree_leaves(tensors):
        if isinstance(tensor, Tensor):
            tensor.untyped_storage().elsewhere = elsewhere
    return tensors


class Places(TorchDispatchMode):
    """Keeps the books below autograd and vmap, and complains."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        places = {is_elsewhere(tensor) for tensor in tensors}
        if name in MOVES:
            places = {is_elsewhere(tensors[0])}
        elif len(places) > 1:
            self._check(func, name, args, tensors)
            places = {True}
        result = func(*args, **kwargs)
        return put(result, places == {True})

    @staticmethod
    def _check(func, name, args, tensors):
        held = tensors[:1] if name in INDEXED else tensors
        written = func._schema.is_mutable and isinstance(args[0], Tensor)
        foreign = [t for t in held if not is_elsewhere(t) and t.ndim]
        foreign += [args[0]] if written and not is_elsewhere(args[0]) else []
        if foreign and any(t.numel() for t in foreign):
            shapes = [(tuple(t.shape), "GPU" if is_elsewhere(t) else "CPU") for t in tensors]
            raise RuntimeError(f"{func}: tensors on two devices, {shapes}")


class Words(TorchFunctionMode):
    """What Python code says of devices."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch._C._nn._parse_to:  # of Module.to, which moves tensor by tensor
            return func(*args, **kwargs)
        if func == Tensor.device.__get__:
            return ELSEWHERE if is_elsewhere(args[0]) else HERE
        if func in (Tensor.numpy, Tensor.__array__) and is_elsewhere(args[0]):
            raise TypeError("can't convert a tensor of the GPU to numpy")
        if func is Tensor.cpu:
            return args[0] if not is_elsewhere(args[0]) else put(args[0].clone(), False)
        if func is Tensor.new_tensor:
            return put(func(*args, **kwargs), is_elsewhere(args[0]))
        if func is Tensor.pin_memory:
            return args[0]
        said = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.device)]
        if func is Tensor.to and len(args) > 1 and isinstance(args[1], Tensor):
            said = [ELSEWHERE if is_elsewhere(args[1]) else HERE]
            args = (args[0], HERE, args[1].dtype, *args[2:])
        args, kwargs = tree_map(
            lambda leaf: HERE if isinstance(leaf, torch.device) else leaf, (args, kwargs)
        )
        if not said:
            return func(*args, **kwargs)
        there = said[0].type == ELSEWHERE.type
        if func is Tensor.to:
            stays = is_elsewhere(args[0]) == there
            return (
                func(*args, **kwargs)
                if stays
                else put(func(*args, **kwargs | {"copy": True}), there)
            )
        return put(func(*args, **kwargs), there)


class Elsewhere(ExitStack):
    """Both modes in one block."""

    def __enter__(self):
        super().__enter__()
        self.enter_context(Places())
        self.enter_context(Words())
        return self


def replayed(function):
    """As `gossip.task.cuda_graphs.capture`, by running the function again into the same memory."""
    results = function()

    def replay():
        for old, new in zip(results, function(), strict=True):
            if old is not None:
                old.copy_(new)

    return results, replay
