"""What loops of users do in a step: the same for a wrapped module and for the plain one."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Body = Callable[[nn.Module, torch.optim.Optimizer, Tensor, int], None]
"""A step of learner j with (model, optimizer, batch, j). The model may be a Gossip or plain."""


class Loop(NamedTuple):
    """A user's loop."""

    build: Callable[[], nn.Module]
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
    body: Body
    steps: int = 6


def flat(module: nn.Module) -> Tensor:
    """A copy of all parameters, those without a gradient too."""
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def fill(module: nn.Module, weights: Tensor) -> None:
    with torch.no_grad():
        for p, part in zip(
            module.parameters(),
            weights.split([p.numel() for p in module.parameters()]),
            strict=True,
        ):
            p.copy_(part.view(p.shape))


def batch_of(t: int, j: int) -> Tensor:
    """Learner j's inputs of step t, [5, 4]."""
    generator = torch.Generator().manual_seed(100 * t + j)
    return torch.randn(5, 4, dtype=torch.float64, generator=generator)


def walked(
    loop: Loop, start: Tensor, matrices: list[Tensor], order: str, wire: Callable | None = None
) -> Tensor:
    """The weights of all learners, [n, d], after w <- W w + (OPT(w, g) - w), or W OPT(w, g).

    Args:
        loop: what each learner does between two mixes.
        start: weights that all begin with, [d].
        matrices: W(t) of each step, [n, n].
        order: "awc" or "atc".
        wire: what the learners send instead of their weights [n, d]; None: those.
    """
    n = len(matrices[0])
    modules = [loop.build() for _ in range(n)]
    trained = torch.cat(
        [torch.full((p.numel(),), p.requires_grad) for p in modules[0].parameters()]
    )
    optimizers = [loop.optimizer(p for p in m.parameters() if p.requires_grad) for m in modules]
    x = start.repeat(n, 1)
    for t, w in enumerate(matrices):
        after = []
        for j, (module, optimizer) in enumerate(zip(modules, optimizers, strict=True)):
            fill(module, x[j])
            loop.body(module, optimizer, batch_of(t, j), j)
            after.append(flat(module))
        y = torch.stack(after)
        sent = x if order == "awc" else y
        mixed = w @ (sent if wire is None else wire(sent)) + (y - sent)
        x = torch.where(trained, mixed, y)
    return x


def net() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 4)).double()


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).square().mean() + model(x).sum() / 7


def plain(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, j: int) -> None:
    optimizer.zero_grad()
    loss_of(model, x).backward()
    optimizer.step()


def sam(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, j: int, *, by_data: bool = False
) -> None:
    """Sharpness-aware: the gradient at w + e, taken back before the step."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    loss_of(model, x).backward()
    old = [p.detach().clone() for p in parameters]
    with torch.no_grad():
        for p in parameters:
            p.add_(0.05 * p.grad)
    optimizer.zero_grad()
    loss_of(model, x).backward()
    with torch.no_grad():
        for p, before in zip(parameters, old, strict=True):
            if by_data:  # as the well-known class does
                p.data = before
            else:
                p.copy_(before)
    optimizer.step()
    optimizer.zero_grad()


class Sam(torch.optim.Optimizer):
    """Sharpness-aware as an optimizer of its own around another one, with a closure."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__(parameters, {})
        self.inner = torch.optim.SGD(self.param_groups, lr=0.1, momentum=0.9)

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor]) -> None:
        with torch.enable_grad():
            closure()
        moves = [(p, 0.05 * p.grad) for group in self.param_groups for p in group["params"]]
        for p, move in moves:
            p.add_(move)
        self.zero_grad()
        with torch.enable_grad():
            closure()
        for p, move in moves:
            p.sub_(move)
        self.inner.step()
        self.zero_grad()


def by_closure(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, j: int) -> None:
    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, x)
        loss.backward()
        return loss

    if isinstance(optimizer, torch.optim.LBFGS):
        optimizer.param_groups[0]["max_iter"] = 1 + 2 * (j % 3)
    optimizer.step(closure)


def probe(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, j: int) -> None:
    """Backward passes whose gradients are thrown away: one that is looked at, one that is inf."""
    for scale in (1.0, torch.inf):
        (scale * loss_of(model, 2 * x)).backward()
        optimizer.zero_grad()
    plain(model, optimizer, x, j)


def adversarial(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, j: int) -> None:
    """Fast gradient sign: the gradient of the inputs comes first, and is thrown away."""
    inputs = x.clone().requires_grad_()
    loss_of(model, inputs).backward()
    plain(model, optimizer, x + 0.1 * inputs.grad.sign(), j)


def penalty(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, j: int) -> None:
    optimizer.zero_grad()
    loss = loss_of(model, x)
    trained = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss, trained, create_graph=True)
    (loss + sum(g.square().sum() for g in gradients)).backward()
    optimizer.step()


def twice_backward(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, j: int) -> None:
    optimizer.zero_grad()
    loss = loss_of(model, x)
    loss.backward(retain_graph=True)
    optimizer.zero_grad()
    (2 * loss).backward()
    optimizer.step()


def by_hand(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, j: int) -> None:
    """No `.backward()`, no optimizer: `skip_step()` says that the update is done."""
    trained = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss_of(model, x), trained)
    with torch.no_grad():
        for p, g in zip(trained, gradients, strict=True):
            p -= 0.1 * g
    if hasattr(model, "skip_step"):
        model.skip_step()


def in_backward(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, j: int) -> None:
    """An optimizer per parameter, called as soon as its gradient is there."""
    parts = [torch.optim.SGD([p], lr=0.1) for p in model.parameters()]

    def step(part: torch.optim.Optimizer, _: Tensor) -> None:
        part.step()
        part.zero_grad()

    handles = [
        part.param_groups[0]["params"][0].register_post_accumulate_grad_hook(partial(step, part))
        for part in parts
    ]
    model(x).square().mean().backward()
    for handle in handles:
        handle.remove()


def scaled(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, j: int) -> None:
    """Two micro-batches; a GradScaler leaves the step out where the first overflows."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    optimizer.zero_grad()
    factor = torch.inf if x[0, 0] > 0.3 else 1.0
    scaler.scale(factor * loss_of(model, x)).backward()
    scaler.scale(loss_of(model, 2 * x)).backward()
    scaler.step(optimizer)
    scaler.update()


class Checkpointed(nn.Module):
    """Activations are computed again in the backward pass."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.inner, self.reentrant = net(), reentrant

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.inner, x.requires_grad_(), use_reentrant=self.reentrant)


def whole_checkpointed(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, j: int
) -> None:
    optimizer.zero_grad()
    checkpoint(model, x, use_reentrant=False).square().mean().backward()
    optimizer.step()


def tied(transposed: bool = False, part: bool = False) -> nn.Module:
    """Weights that are one by their memory, not by the Python object."""
    module = net()
    if transposed:
        module[2].weight.data = module[0].weight.data.t()
    elif part:
        module[2].bias.data = module[0].weight.data[0]
    else:
        module = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).double()
        fill(module, torch.linspace(-1, 1, 40, dtype=torch.float64))
        module[2].weight.data = module[0].weight.data
    return module


def neighbours(columns: bool) -> nn.Module:
    """Parameters that lie in one storage, and have no element in common."""
    module = net()
    store = torch.linspace(-1, 1, 24, dtype=torch.float64).view(3, 8)
    module[0].weight.data = store[:, :4] if columns else store.view(6, 4)[:3]
    module[2].weight.data = store[:, 4:].t() if columns else store.view(6, 4)[3:].view(4, 3)
    return module


class Embedded(nn.Module):
    """Sparse gradients, and a parameter that has none."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.table = nn.Embedding(6, 4, sparse=True, dtype=torch.float64)
        self.unused = nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.table((x.abs() * 2).long().clamp(max=5)).sum(-2) * x


class Adapted(nn.Module):
    """A frozen base with low-rank adapters."""

    def __init__(self) -> None:
        super().__init__()
        self.base = net().requires_grad_(False)
        self.down = nn.Parameter(torch.linspace(-1, 1, 8, dtype=torch.float64).view(4, 2))
        self.up = nn.Parameter(torch.zeros(2, 4, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + x @ self.down @ self.up


def odd_shapes() -> nn.Module:
    """A transposed parameter, an empty one, one with gaps, and a number."""
    module = net()
    module[0].weight = nn.Parameter(module[0].weight.detach().t().contiguous().t())
    module[2].weight = nn.Parameter(torch.linspace(-1, 1, 24).double().view(4, 6)[:, ::2])
    module.empty = nn.Parameter(torch.empty(0, 3, dtype=torch.float64))
    module.scale = nn.Parameter(torch.tensor(0.7, dtype=torch.float64))
    module.register_forward_hook(lambda m, _, y: y * m.scale + m.empty.sum())
    return module


sgd = partial(torch.optim.SGD, lr=0.1)
momentum = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
LOOPS = {
    "plain": Loop(net, momentum, plain),
    "SAM": Loop(net, momentum, sam),
    "SAM by p.data": Loop(net, momentum, partial(sam, by_data=True)),
    "SAM as an optimizer": Loop(net, Sam, by_closure),
    "a probing backward pass": Loop(net, momentum, probe),
    "adversarial inputs": Loop(net, momentum, adversarial),
    "gradient penalty": Loop(net, momentum, penalty),
    "backward twice": Loop(net, momentum, twice_backward),
    "by hand": Loop(net, sgd, by_hand),
    "optimizer in backward": Loop(net, sgd, in_backward),
    "GradScaler": Loop(net, momentum, scaled),
    "L-BFGS": Loop(net, partial(torch.optim.LBFGS, lr=0.1), by_closure),
    "sparse and unused": Loop(Embedded, sgd, plain),
    "checkpointing": Loop(partial(Checkpointed, False), momentum, plain),
    "reentrant checkpointing": Loop(partial(Checkpointed, True), momentum, plain),
    "all of it checkpointed": Loop(net, momentum, whole_checkpointed),
    "tied by data": Loop(tied, momentum, plain),
    "tied transposed": Loop(partial(tied, transposed=True), momentum, plain),
    "a part tied": Loop(partial(tied, part=True), momentum, plain),
    "rows of one storage": Loop(partial(neighbours, False), momentum, plain),
    "columns of one storage": Loop(partial(neighbours, True), momentum, plain),
    "adapters": Loop(Adapted, momentum, plain),
    "odd shapes": Loop(odd_shapes, momentum, plain),
}
