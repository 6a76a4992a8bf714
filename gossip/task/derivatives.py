"""Where a graph of derivatives ends without saying so."""

from torch import Tensor


def refuse_ends(gradient: Tensor) -> None:
    """Refuse a gradient with a part that autograd takes for a constant, without saying so.

    Raises:
        RuntimeError: a function in it is marked with `once_differentiable`.
    """
    seen: set[object] = set()
    nodes = [gradient.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            if node.name().rpartition("::")[2] in ("Error", "DelayedError"):
                raise RuntimeError("a function in it is marked with once_differentiable")
            nodes += [after for after, _ in node.next_functions]
