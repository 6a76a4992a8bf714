r"""The Hessian of a user's loss at the mean model: what it makes of Delta, and along the gradient.

The columns are those of `gossip.monitor.curvature` and `gossip.monitor.lipschitz`, with the probes
of all learners in the place of training samples. A learner knows no samples but its own, so that

.. math:: H v = \frac1m \sum_k m_k H_k v, \qquad m = \sum_k m_k,

takes all of them: one after the other the learners' deviations go round, each learner multiplies
them by H_k of its own m_k samples, and the products are averaged. Per measured step that is 2 n + 1
averages of d numbers, one more where mini-batches are known, and, of each learner, n + 1
Hessian-vector products of its probe and one of its mini-batches.

Products are exact (double back-propagation), as everywhere in gossip, and in the precision of the
weights, whatever the script's autocast (`Replay.standing_at`).
"""

from collections.abc import Iterable
from math import nan
from typing import Any

import torch
from torch import Tensor

from gossip.comm.base import Communicator
from gossip.errors import UserError, said
from gossip.monitor import LIPSCHITZ, Values
from gossip.monitor.effective_rate import MeanModelGradient
from gossip.monitor.lipschitz import largest_step
from gossip.task import derivatives
from gossip.task.derivatives import refuse_ends, twice_differentiable
from gossip.wrapper.probing import ProbeBatches, Replay, samples_in
from gossip.wrapper.shards import is_distributed
from gossip.wrapper.watching import as_one_row, as_own_rows


def delta2_hessian(
    replay: Replay,
    lr: float,
    w_a: Tensor,
    deviation: Tensor,
    probe: ProbeBatches,
    comm: Communicator,
) -> float:
    r"""alpha^2 n^-2 sum_j ||H delta w_j||^2, Eq. 5's second line.

    Args:
        replay: of the loss.
        lr: alpha.
        w_a: mean model, [d].
        deviation: delta w_j of the learner here, [d] float64.
        probe: the samples of the learner here.
        comm: collective, with one learner in each process.
    """
    total = 0.0
    for j in range(comm.n):
        own = deviation if j == comm.process else torch.zeros_like(deviation)
        v = comm.mean(comm.n * own.unsqueeze(0))
        total += float(_times(replay, w_a, v, probe, comm).square().sum())
    return lr * lr / comm.n**2 * total


def delta2_hessian_minibatch(
    replay: Replay,
    lr: float,
    w_a: Tensor,
    deviation: Tensor,
    batches: Iterable[Any],
    comm: Communicator,
) -> float:
    """alpha^2 ||mean of H_j delta w_j||^2, of each learner's own mini-batches. Collective."""
    product, samples = vector_sums(replay, w_a, deviation, batches)
    mean = comm.mean((product / max(samples, 1)).unsqueeze(0))
    return lr * lr * float(mean @ mean)


def lipschitz(
    replay: Replay, w_a: Tensor, g: MeanModelGradient, probe: ProbeBatches, comm: Communicator
) -> Values:
    """L(x, g) = g'Hg / ||g||^2 at the mean model on the probes, and 1 / L. Collective."""
    length = g.vector.norm()
    if length == 0:
        return dict.fromkeys(LIPSCHITZ, nan)
    along = g.vector / length
    value = float(along @ _times(replay, w_a, along, probe, comm))
    return {"lipschitz": value, "lipschitz_step": largest_step(value)}


def _times(
    replay: Replay, w_a: Tensor, v: Tensor, probe: ProbeBatches, comm: Communicator
) -> Tensor:
    """H v [d], of a v that all learners have. Collective."""
    product, samples = vector_sums(replay, w_a, v, probe.batches)
    total = comm.mean(torch.cat([product, product.new_tensor([samples])]).unsqueeze(0))
    return total[:-1] / total[-1]


def vector_sums(
    replay: Replay, row: Tensor, v: Tensor, batches: Iterable[Any]
) -> tuple[Tensor, int]:
    """The sum over samples of the Hessian at `row` [d] times v [d], float64; and their number."""
    weights = replay.weights
    slots = list(weights.slots.values())
    parameters = [slot.parameter for slot in slots]
    directions = as_own_rows(v, weights.like)
    total, samples = torch.zeros_like(row, dtype=torch.float64), 0
    with replay.standing_at(row):
        for batch in batches:
            count = samples_in(batch)
            samples += count
            gradients = _gradients(replay, batch, parameters)
            pairs = zip(gradients, slots, strict=True)
            along = torch.stack([(g * s.part(directions)).sum().to(v) for g, s in pairs]).sum()
            if along.requires_grad:
                parts = torch.autograd.grad(along, parameters, materialize_grads=True)
                total += count * replay.row(parts).to(total)
    return total, samples


def _gradients(replay: Replay, batch: Any, parameters: list[Tensor]) -> tuple[Tensor, ...]:
    """Of the loss, with a graph of their own; a parameter that it does not use has 0."""
    with twice_differentiable():
        value = replay.value(batch)
    return derivatives.gradients(value, parameters, create_graph=True)


def check(replay: Replay, probe: ProbeBatches) -> None:
    """Try on a batch of the probe whether the loss has second derivatives. Local.

    A function whose backward pass hands out what the forward pass has kept, as that of fused
    losses, is taken for a constant without a word of autograd's, and cannot be told from one.

    Raises:
        UserError: it has none, or a learner has several processes.
    """
    weights = replay.weights
    parameters = [slot.parameter for slot in weights.slots.values()]
    if any(map(is_distributed, parameters)):
        raise UserError(
            "record(monitor='full') of a sharded module, which has no second derivatives: use "
            "monitor='standard', without them"
        )
    row = as_one_row(weights.rows())[0]
    with replay.standing_at(row):
        batch = next(iter(probe.batches), None)
    if batch is None:  # which `Replay.gradient` says better
        return
    try:
        with replay.standing_at(row):
            gradients = _gradients(replay, batch, parameters)
            refuse_ends(torch.cat([g.reshape(-1) for g in gradients]))
        vector_sums(replay, row, torch.ones_like(row), [batch])
    except UserError:
        raise
    # What a user's module does is its own affair, and autograd raises what it likes.
    except Exception as error:
        raise UserError(
            "record(monitor='full') needs second derivatives of the loss, which this one has none "
            f"of ({said(error)}); use monitor='standard', without them"
        ) from error
