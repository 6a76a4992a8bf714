"""Models of users' own that do something unusual, each (input_shape, num_classes) -> a module."""

# ruff: noqa: NPY002 - users draw from the global generator
import itertools
import math
import random
import types

import numpy as np
import torch
from torch import Tensor, nn

OWN = torch.Generator()


class Net(nn.Module):
    """Two layers, with something in between that others put there."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(math.prod(shape), 6), nn.Linear(6, classes)

    def hidden(self, x: Tensor) -> Tensor:
        return torch.tanh(self.a(x.flatten(1)))

    def between(self, h: Tensor) -> Tensor:
        return h

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.between(self.hidden(x)))


class FunctionalDropout(Net):
    def between(self, h):
        return nn.functional.dropout(h, 0.5, self.training)


class WithLayer(Net):
    """Has a layer of its own in between."""

    def __init__(self, shape: tuple[int, ...], classes: int, layer: nn.Module) -> None:
        super().__init__(shape, classes)
        self.layer = layer

    def between(self, h: Tensor) -> Tensor:
        return self.layer(h)


class DropoutLayer(WithLayer):
    def __init__(self, *arguments):
        super().__init__(*arguments, nn.Dropout(0.3))


class DropoutAndBatchNorm(WithLayer):
    def __init__(self, *arguments):
        super().__init__(*arguments, nn.Sequential(nn.BatchNorm1d(6), nn.Dropout(0.3)))


class PythonDraws(Net):
    """Leaves a layer out by Python's own random numbers."""

    def between(self, h):
        return 2 * h if self.training and random.random() < 0.5 else h


class NumpyDraws(Net):
    def between(self, h):
        scale = np.random.rand(6) if self.training else np.full(6, 0.5)
        return h * torch.from_numpy(scale).to(h)


class Reseeds(Net):
    def between(self, h):
        torch.manual_seed(0)
        return nn.functional.dropout(h, 0.5, self.training)


class Transformer(nn.Module):
    def __init__(self, shape, classes, dropout=0.2):
        super().__init__()
        width = shape[-1]
        self.body = nn.TransformerEncoderLayer(width, 2, 8, dropout=dropout, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.body(x).mean(dim=1))


class Recurrent(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.body = nn.LSTM(shape[-1], 4, 2, dropout=0.4, batch_first=True)
        self.head = nn.Linear(4, classes)

    def forward(self, x):
        return self.head(self.body(x)[0][:, -1])


class InBatch(Net):
    """Looks at its batch without any BatchNorm."""

    def between(self, h):
        return h - h.mean(dim=0)


class Remembering(Net):
    """Keeps what it has seen last, which is no state."""

    def between(self, h):
        self.last = h.detach()
        return h


class Scaled(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.scale = nn.Parameter(torch.tensor(1.5))

    def between(self, h):
        return h * self.scale


class WithEmpty(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.nothing, self.none = nn.Parameter(torch.empty(0, 3)), nn.Parameter(torch.empty(0))


class Transposed(Net):
    def __init__(self, shape, classes):
        super().__init__(shape, classes)
        self.a.weight = nn.Parameter(0.1 * torch.randn(math.prod(shape), 6).T)


class Unused(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.spare = nn.Linear(2, 2)


class SparseEmbedding(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.words, self.head = nn.Embedding(17, 5, sparse=True), nn.Linear(5, classes)

    def forward(self, x):
        return self.head(self.words((x.flatten(1) * 16).long()).mean(dim=1))


class Frozen(Net):
    """Random features, drawn when it is made."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.a.requires_grad_(False)


class TiedObject(nn.Module):
    """An encoder and a decoder of one weight."""

    def __init__(self, shape, classes):
        super().__init__()
        d = math.prod(shape)
        self.encoder, self.decoder = nn.Linear(d, d), nn.Linear(d, d)
        self.head = nn.Linear(d, classes)
        self.tie()

    def tie(self):
        self.decoder.weight = self.encoder.weight

    def forward(self, x):
        return self.head(torch.tanh(self.decoder(torch.tanh(self.encoder(x.flatten(1))))))


class TiedData(TiedObject):
    def tie(self):
        self.decoder.weight.data = self.encoder.weight.data


class TiedTranspose(TiedObject):
    def tie(self):
        self.decoder.weight.data = self.encoder.weight.data.T


class TiedFrozen(TiedData):
    """The decoder follows the encoder, and adds nothing to its gradient."""

    def tie(self):
        super().tie()
        self.decoder.weight.requires_grad_(False)


class Lazy(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.a, self.b = nn.LazyLinear(6), nn.LazyLinear(classes)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x.flatten(1))))


class Double(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.double()


class Half(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.half()


class ComplexBuffer(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.register_buffer("phase", torch.polar(torch.ones(6), torch.arange(6.0)))

    def between(self, h):
        return (h * self.phase).real


class IntegerParameter(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.order = nn.Parameter(torch.arange(6).flip(0), requires_grad=False)

    def between(self, h):
        return h[:, self.order]


class DrawnByNumpy(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.b.bias.data.copy_(torch.from_numpy(np.random.rand(len(self.b.bias))))


class Once(torch.autograd.Function):
    """tanh, by hand."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g * (1 - ctx.saved_tensors[0].tanh() ** 2)


class OnceDifferentiable(Net):
    def hidden(self, x):
        return Once.apply(self.a(x.flatten(1)))


# What cannot work, with a part of the sentence that says so.


class AlwaysDraws(Net):
    def between(self, h):
        return nn.functional.dropout(h, 0.5)


class OwnGenerator(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.own = torch.Generator().manual_seed(0)

    def between(self, h):
        return h * torch.rand(6, generator=self.own).to(h)


class GlobalGenerator(Net):
    def between(self, h):
        return h * torch.rand(6, generator=OWN).to(h) if self.training else h


class OutOfNowhere(Net):
    def between(self, h):
        return h * np.random.default_rng().random() if self.training else h


class SpectralNorm(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        nn.utils.parametrizations.spectral_norm(self.b)


class CountingBuffer(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64), persistent=False)

    def between(self, h):
        if self.training:
            self.calls += 1
        return h / self.calls.clamp(min=1)


class RunningMean(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.register_buffer("mean", torch.zeros(6))

    def between(self, h):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(dim=0)
        return h - self.mean


class CumulativeBatchNorm(WithLayer):
    def __init__(self, *arguments):
        super().__init__(*arguments, nn.BatchNorm1d(6, momentum=None))


class EvaluationMoves(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.register_buffer("seen", torch.zeros(()))

    def between(self, h):
        self.seen += not self.training
        return h


class Counting(Net):
    calls = 0

    def between(self, h):
        self.calls += 1
        return h / self.calls


class CountingTensor(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.calls = torch.zeros(())

    def between(self, h):
        self.calls += 1
        return h


class CountingDeepDown(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.own = types.SimpleNamespace(parts={"count": [itertools.count()]})

    def between(self, h):
        next(self.own.parts["count"][0])
        return h


CALLS = [0]


class GlobalCount(Net):
    def between(self, h):
        CALLS[0] += 1
        return h / CALLS[0]


class Clipping(Net):
    def between(self, h):
        with torch.no_grad():
            self.b.weight.clamp_(-0.01, 0.01)
        return h


class HiddenWeight(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.kept = [self.a.weight]

    def hidden(self, x):
        return torch.tanh(x.flatten(1) @ self.kept[0].T + self.a.bias)


class TiedInPart(TiedObject):
    def tie(self):
        self.decoder.bias.data = self.encoder.weight.data[0]


class Expanded(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.b.bias = nn.Parameter(torch.zeros(1).expand(len(self.b.bias)))


class AllFrozen(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.requires_grad_(False)


class ComplexParameter(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.phase = nn.Parameter(torch.ones(6, dtype=torch.complex64))

    def between(self, h):
        return (h * self.phase).real


class OnMeta(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.to("meta")


class Tuple(Net):
    def forward(self, x):
        return super().forward(x), None


class Dictionary(Net):
    def forward(self, x):
        return {"logits": super().forward(x)}


class AuxiliaryHead(Net):
    def forward(self, x):
        return (super().forward(x),) * 2 if self.training else super().forward(x)


class Nothing(Net):
    def forward(self, x):
        super().forward(x)


class Squeezed(Net):
    def forward(self, x):
        return super().forward(x).squeeze()


class Classes(Net):
    def forward(self, x):
        return nn.functional.one_hot(super().forward(x).argmax(dim=-1), self.b.out_features)


class Detached(Net):
    def forward(self, x):
        return super().forward(x).detach()


class Raising(Net):
    def forward(self, x):
        raise KeyError("nothing of\nthat name")


class RaisingInTraining(Net):
    def forward(self, x):
        assert not self.training, "only to look at"
        return super().forward(x)


class RaisingBackwards(Net):
    def between(self, h):
        if h.requires_grad:
            h.register_hook(lambda g: g[:, :2] @ g)
        return h


class OfOneBatchSize(Net):
    def hidden(self, x):
        return torch.tanh(self.a(x.reshape(32, -1)))


class OtherSignature(Net):
    def forward(self, x, mask):
        return super().forward(x)


class OutOfNumpy(Net):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        numbers = np.random.default_rng().random(len(self.b.bias))
        self.b.bias.data.copy_(torch.from_numpy(numbers))


def scripted(shape, classes):
    return torch.jit.trace(Net(shape, classes), torch.zeros(2, *shape))


def not_a_module(shape, classes):
    return 3


def a_class(shape, classes):
    return Net


def divides(shape, classes):
    return 1 / 0


def exits(shape, classes):
    raise SystemExit(3)


def of_one(shape):
    return Net(shape, 10)


WORK = (
    *(FunctionalDropout, DropoutLayer, DropoutAndBatchNorm, PythonDraws, NumpyDraws, Reseeds),
    *(Transformer, Recurrent, InBatch, Remembering, Scaled, WithEmpty, Transposed, Unused),
    *(SparseEmbedding, Frozen, TiedObject, TiedData, TiedTranspose, TiedFrozen, Lazy, Double),
    *(Half, ComplexBuffer, IntegerParameter, DrawnByNumpy),
)
"""What a run takes, alone and on several processes."""

DRAW = (*WORK[:6], Transformer, Recurrent)
"""Of these, those that draw random numbers in a training pass."""

REFUSED = {
    AlwaysDraws: "draws random numbers in evaluation",
    OwnGenerator: "changes its attribute 'own'",
    GlobalGenerator: "other numbers in a second training pass",
    OutOfNowhere: "other numbers in a second training pass",
    SpectralNorm: "changes its buffer 'b.parametrizations.weight.0._u' in a training pass",
    CountingBuffer: "changes its buffer 'calls' in a training pass",
    RunningMean: "changes its buffer 'mean' in a training pass",
    CumulativeBatchNorm: "changes its buffer 'layer.num_batches_tracked'",
    EvaluationMoves: "changes its buffer 'seen' in evaluation",
    Counting: "changes its attribute 'calls'",
    CountingTensor: "changes its attribute 'calls'",
    CountingDeepDown: "changes its attribute \"own.parts['count'][0]\"",
    GlobalCount: "other numbers in a second training pass",
    Clipping: "changes its own parameter 'b.weight'",
    HiddenWeight: "reaches its parameter 'a.weight' by another way",
    TiedInPart: "'encoder.weight' and 'decoder.bias' share a part of their memory",
    Expanded: "'b.bias' is expanded",
    AllFrozen: "no parameter that needs a gradient (all 4 are frozen)",
    ComplexParameter: "'phase' is complex64, which cannot be averaged",
    OnMeta: "'a.weight' is on the meta device",
    Tuple: "gives tuple in evaluation, not a tensor; needed are logits, [1, 10]",
    Dictionary: "gives dict in evaluation, not a tensor",
    AuxiliaryHead: "gives tuple in training, not a tensor",
    Nothing: "gives NoneType",
    Squeezed: "outputs of shape [10] for one sample",
    Classes: "type torch.int64",
    Detached: "depend on no parameter that is trained",
    Raising: "KeyError: nothing of that name (odd_models.py, line",
    RaisingInTraining: "AssertionError: only to look at (odd_models.py, line",
    RaisingBackwards: "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
    OfOneBatchSize: "cannot take 1 inputs of shape [8, 8]",
    OtherSignature: "missing 1 required positional argument: 'mask'",
    OutOfNumpy: "is not the same when it is made twice under one seed ('b.bias' differs)",
    scripted: "cannot take",
    not_a_module: "returned int, not a torch.nn.Module",
    a_class: "returned type, not a torch.nn.Module",
    divides: "ZeroDivisionError: division by zero (odd_models.py, line",
    exits: "SystemExit: 3",
    of_one: "cannot be called as (input_shape, num_classes)",
}
"""What a run refuses -> a part of the sentence that says why."""
