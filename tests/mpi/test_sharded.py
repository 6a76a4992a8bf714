"""Learners of several processes: two of them, sharded, walk the way of two that are not."""

from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from mpi4py import MPI
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.functional import mse_loss

import gossip
from gossip import Averager, Gossip
from gossip.comm.stacked import Stacked
from gossip.comm.transports.gloo import start_torch_distributed
from gossip.errors import UserError
from gossip.monitor import Moment, Values
from gossip.monitor.decomposition import noise_split
from gossip.monitor.effective_rate import MeanModelGradient
from gossip.monitor.monitor import rate_values, spread_values
from gossip.monitor.spread import mean_model, spread
from gossip.report import load_runs
from gossip.wrapper.own_gradients import own_rate
from gossip.wrapper.shards import shard

N, RANK = MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank
pytestmark = [
    pytest.mark.mpi,
    pytest.mark.processes(2, 4),
    pytest.mark.skipif(N not in (2, 4), reason="2 learners of 1 or 2 processes each"),
]
LEARNERS, SHARDS = 2, max(1, N // 2)
W = np.array([[0.7, 0.3], [0.3, 0.7]])
BATCH = 4 * SHARDS
OPTIMIZERS = {
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
}


@pytest.fixture(scope="module")
def mesh():
    start_torch_distributed()
    made = init_device_mesh("cpu", (LEARNERS, SHARDS), mesh_dim_names=("learner", "shard"))
    yield made
    dist.barrier()  # nobody waits for a message any more
    for group in made.get_all_groups():  # each has threads that wake up 100 times a second
        if group is not dist.group.WORLD:  # of which it is made where there is one place
            dist.destroy_process_group(group)


def module(seed: int = 0, hidden: int = 8, out: int = 4) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = nn.LayerNorm(6), nn.Linear(6, hidden), nn.Tanh(), nn.Linear(hidden, out)
        return nn.Sequential(*layers).double()


def sharded(mesh, seed: int = 0, **sizes: int) -> nn.Module:
    made = module(seed, **sizes)
    for part in (*(p for p in made if isinstance(p, nn.Linear)), made):
        fully_shard(part, mesh=mesh["shard"])
    return made


def parallel(mesh, seed: int = 0, *, rows_apart: bool = False) -> nn.Module:
    """Linear layers are split, and their last bias is not; nor is the norm, which is no DTensor.

    With `rows_apart` it is one, of which each process computes the gradient on some rows.
    """
    plan = {"1": ColwiseParallel(), "3": RowwiseParallel()}
    if rows_apart:
        parts = {"input_layouts": Replicate(), "desired_input_layouts": Shard(0)}
        plan = {
            "": PrepareModuleInput(**parts),
            "0": SequenceParallel(sequence_dim=0),
            "1": ColwiseParallel(input_layouts=Shard(0)),
            "3": RowwiseParallel(),
        }
    return parallelize_module(module(seed), mesh["shard"], plan)


SPLIT = {
    "fully": sharded,
    "tensors": parallel,
    "tensors and rows": partial(parallel, rows_apart=True),
}
"""Ways to split a learner among its processes; only in the first each has a part of the batch."""


def batch(t: int, learner: int, out: int = 4) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(100 * t + learner)
    return (
        torch.randn(BATCH, 6, dtype=torch.float64, generator=draw),
        torch.randn(BATCH, 4, dtype=torch.float64, generator=draw)[:, :out],
    )


def step(model: nn.Module, optimizer, x: Tensor, y: Tensor) -> None:
    optimizer.zero_grad()
    mse_loss(model(x), y).backward()
    own = list(model.parameters())
    for part in (own[:2], own[2:]):  # torch takes DTensors and others apart only
        nn.utils.clip_grad_norm_(part, 0.5)  # over all of a learner's shards
    optimizer.step()


def part_of(mesh, whole: tuple[Tensor, Tensor], how: str = "fully") -> tuple[Tensor, Tensor]:
    """What this process gets of a batch of its learner."""
    if how != "fully":
        return whole
    place = mesh.get_local_rank("shard")
    x, y = (part[place * BATCH // SHARDS : (place + 1) * BATCH // SHARDS] for part in whole)
    return x, y


def walk(model: Gossip, optimizer, mesh, steps: range, out: int = 4, how: str = "fully") -> None:
    learner = mesh.get_local_rank("learner")
    for t in steps:
        step(model, optimizer, *part_of(mesh, batch(t, learner, out), how))


def expected(order: str, optimizer: str, steps: int, **sizes: int) -> list[dict[str, Tensor]]:
    """Both learners' weights, by the formula on whole modules."""
    learners = [module(**sizes) for _ in range(LEARNERS)]
    out = sizes.get("out", 4)
    optimizers = [OPTIMIZERS[optimizer](m.parameters()) for m in learners]
    for t in range(steps):
        before = [deepcopy(m.state_dict()) for m in learners]
        for j, m in enumerate(learners):
            step(m, optimizers[j], *batch(t, j, out))
        after = [deepcopy(m.state_dict()) for m in learners]
        sent = after if order == "atc" else before
        for j, m in enumerate(learners):
            m.load_state_dict(
                {
                    name: sum(W[j, k] * sent[k][name] for k in range(LEARNERS))
                    + (0 if order == "atc" else after[j][name] - before[j][name])
                    for name in before[j]
                }
            )
    return [m.state_dict() for m in learners]


def whole(model: Gossip) -> dict[str, Tensor]:
    named = model.module.named_parameters()
    return {
        name: p.detach().full_tensor() if isinstance(p, DTensor) else p.detach()
        for name, p in named
    }


def assert_equal(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-12)


ODD = {"hidden": 5, "out": 1}
"""Of two shards one has 3 rows and the other 2; of one row the other has nothing."""


@pytest.mark.parametrize(
    ("how", "order", "optimizer", "sizes"),
    [
        ("fully", "awc", "momentum", {}),
        ("fully", "atc", "adamw", {}),
        ("fully", "awc", "adamw", ODD),
        ("fully", "atc", "momentum", ODD),
        ("tensors", "awc", "adamw", {}),
        ("tensors", "atc", "momentum", {}),
        ("tensors and rows", "awc", "momentum", {}),
        ("tensors and rows", "atc", "adamw", {}),
    ],
)
def test_two_sharded_learners_walk_the_way_of_two_whole_ones(mesh, how, order, optimizer, sizes):
    seed = mesh.get_local_rank("learner")
    model = Gossip(SPLIT[how](mesh, seed, **sizes), W, order=order, mesh=mesh["learner"])
    optimizing = OPTIMIZERS[optimizer](model.parameters())
    walk(model, optimizing, mesh, range(8), sizes.get("out", 4), how)
    learners = expected(order, optimizer, 8, **sizes)
    learner, _ = mesh.get_coordinate()
    assert (model.comm.n, model.comm.process) == (LEARNERS, learner)
    assert_equal(whole(model), learners[learner])
    if how != "fully":  # one learner's copies are the same bit for bit
        copy = shard(model.module[0].weight)
        told = MPI.COMM_WORLD.allgather((learner, copy))
        assert all(torch.equal(other, copy) for j, other in told if j == learner)
    mean = {name: (learners[0][name] + learners[1][name]) / 2 for name in learners[0]}
    seen = model.monitor()
    with model.average():
        assert_equal(whole(model), mean)
    assert_equal(whole(model), learners[learner])
    squares = sum((learners[j][k] - mean[k]).square().sum() for j in range(2) for k in mean)
    assert seen["sigma_w2"] == pytest.approx(float(squares) / LEARNERS**2, rel=1e-12)


def loss(model: nn.Module, both: tuple[Tensor, Tensor]) -> Tensor:
    return mse_loss(model(both[0]), both[1])


def flat(tensors) -> Tensor:
    return torch.cat([t.detach().reshape(-1) for t in tensors])


def at(row: Tensor, sizes: dict[str, int]) -> nn.Module:
    made = module(**sizes)
    nn.utils.vector_to_parameters(row, made.parameters())
    return made


def gradient_at(row: Tensor, both: tuple[Tensor, Tensor], sizes: dict[str, int]) -> Tensor:
    model = at(row, sizes)
    return flat(torch.autograd.grad(loss(model, both), list(model.parameters())))


def monitored(
    steps: range, probes: list[list[tuple[Tensor, Tensor]]], sizes: dict[str, int]
) -> list[Values]:
    """The rows of two whole learners, by the formulas of the harness on all of them at once."""
    learners, comm = [module(**sizes) for _ in range(LEARNERS)], Stacked(LEARNERS)
    out = sizes.get("out", 4)
    optimizers, found = [OPTIMIZERS["momentum"](m.parameters()) for m in learners], []
    for t in steps:
        x = torch.stack([flat(m.parameters()) for m in learners])
        for m, optimizer, j in zip(learners, optimizers, range(LEARNERS), strict=True):
            step(m, optimizer, *batch(t, j, out))
        gradients = torch.stack([flat(p.grad for p in m.parameters()) for m in learners])
        moved = torch.stack([flat(m.parameters()) for m in learners]) - x
        mixed = torch.from_numpy(W) @ x
        for m, row in zip(learners, mixed + moved, strict=True):
            nn.utils.vector_to_parameters(row, m.parameters())
        nothing = torch.empty(LEARNERS, 0)
        moment = Moment(t, 0.05, x, x, gradients, mixed, mixed + moved, nothing, nothing)
        mean = mean_model(moment, comm)
        each = torch.stack([gradient_at(mean.weights, b, sizes) for own in probes for b in own])
        vector, d = each.mean(0), x.shape[1]
        excess = float((each - vector).square().sum()) / (len(each) - 1) / len(each)
        losses = [loss(at(mean.weights, sizes), b).item() for own in probes for b in own]
        square = float(vector @ vector)
        g = MeanModelGradient(vector, square - excess, excess, np.mean(losses), BATCH * len(each))
        here = [gradient_at(mean.weights, batch(t, j, out), sizes) for j in range(LEARNERS)]
        values = spread_values(moment, spread(moment, mean, comm), mean, LEARNERS, d)
        values |= own_rate(moved, gradients, comm) | rate_values(0.05, mean, g)
        values |= noise_split(0.05, mean.gradient, torch.stack(here).mean(0), g)
        found.append(values)
    return found


@pytest.mark.parametrize(("how", "sizes"), [("fully", ODD), ("tensors and rows", {})])
def test_a_record_of_sharded_learners_is_that_of_whole_ones(mesh, tmp_path, how, sizes):
    out, learner = MPI.COMM_WORLD.bcast(tmp_path) / "run", mesh.get_local_rank("learner")
    width = sizes.get("out", 4)
    probes = [[batch(50 + k, j, width) for k in range(2)] for j in range(LEARNERS)]
    model = Gossip(SPLIT[how](mesh, **sizes), W, mesh=mesh["learner"])
    optimizer = OPTIMIZERS["momentum"](model.parameters())
    mine = [part_of(mesh, both, how) for both in probes[learner]]
    batches = [part_of(mesh, batch(t, learner, width), how) for t in range(5)]
    with gossip.record(model, out, every=2, probe=mine, loss=loss) as recording:
        for x, y in recording.batches(batches):
            step(model, optimizer, x, y)
            recording.note(train_loss=1.0 + RANK)
    assert_equal(whole(model), expected("awc", "momentum", 5, **sizes)[learner])
    MPI.COMM_WORLD.barrier()  # the first process has written all of it
    with pytest.raises(UserError, match="of a sharded module, which has no second derivatives"):
        gossip.record(model, out, probe=mine, loss=loss, monitor="full")
    if SHARDS == 2 and how == "fully":  # the gradient would be no mean over samples
        place = mesh.get_local_rank("shard")
        odd = [tuple(part[place:] for part in both) for both in mine]
        another = gossip.record(model, out.with_name("odd"), every=1, probe=odd, loss=loss)
        with pytest.raises(UserError, match="give the processes of a learner equal parts"), another:
            step(model, optimizer, *batches[0])
    (run,) = load_runs([out])
    for values, row in zip(monitored(range(5), probes, sizes)[::2], range(3), strict=True):
        for name, value in values.items():
            assert run.column(name)[row] == pytest.approx(value, rel=1e-10, nan_ok=True), name
    assert np.isfinite(run.column("delta2")[:3]).all()
    assert np.all(run.column("train_loss")[:3] == 1 + (N - 1) / 2)
    assert (run.number("learners"), run.number("processes")) == (LEARNERS, N)
    assert run.number("parameters") == sum(p.numel() for p in module(**sizes).parameters())


def test_a_learner_is_saved_by_its_processes_and_goes_on(mesh, tmp_path):
    """By torch.distributed.checkpoint, a folder for each learner."""
    folder = MPI.COMM_WORLD.bcast(str(tmp_path)) + f"/learner-{mesh.get_local_rank('learner')}"
    group = mesh["shard"].get_group()

    def begun(seed):
        model = Gossip(sharded(mesh, seed), "one-peer-exponential", mesh=mesh["learner"])
        return model, OPTIMIZERS["adamw"](model.parameters())

    model, optimizer = begun(0)
    walk(model, optimizer, mesh, range(3))
    weights, moments = get_state_dict(model.module, optimizer)
    state = {"weights": weights, "moments": moments, **model.get_extra_state()}
    dcp.save(state, checkpoint_id=folder, process_group=group)
    walk(model, optimizer, mesh, range(3, 6))

    other, another = begun(5)
    weights, moments = get_state_dict(other.module, another)
    state = {"weights": weights, "moments": moments, **other.get_extra_state()}
    dcp.load(state, checkpoint_id=folder, process_group=group)
    set_state_dict(
        other.module,
        another,
        model_state_dict=state.pop("weights"),
        optim_state_dict=state.pop("moments"),
    )
    other.set_extra_state(state)
    assert state["step"] == 3
    walk(other, another, mesh, range(3, 6))
    for name, value in whole(model).items():
        assert torch.equal(whole(other)[name], value), name


def test_what_is_not_supported_is_refused(mesh, tmp_path):
    with pytest.raises(UserError, match=r"'0.weight' is a part of one.*mesh=mesh"):
        Gossip(sharded(mesh))
    with pytest.raises(UserError, match=r"Averager: parameter '0.weight' is a part of one"):
        Averager(sharded(mesh).named_parameters())
    with pytest.raises(UserError, match=r"'0.weight' is not sharded"):
        Gossip(module(), mesh=mesh["learner"])
    with pytest.raises(UserError, match=r"only dpsgd, and not yet 'diloco'"):
        Gossip(sharded(mesh), algorithm="diloco", mesh=mesh["learner"])
    with pytest.raises(UserError, match=r"'0.weight' is placed as S\(0\) on process \d, too"):
        Gossip(fully_shard(module(), mesh=mesh["learner"]), mesh=mesh["learner"])
    summand = parallel(mesh)
    part = DTensor.from_local(torch.ones(6, dtype=torch.float64), mesh["shard"], [Partial()])
    summand[0].weight = nn.Parameter(part)
    with pytest.raises(UserError, match=r"'0.weight' is placed as P\(sum\), each.*a summand"):
        Gossip(summand, mesh=mesh["learner"])
    with pytest.raises(UserError, match="give one dimension of a torch DeviceMesh"):
        Gossip(sharded(mesh), mesh=mesh)
    if SHARDS == 2:
        model = Gossip(parallel(mesh), W, mesh=mesh["learner"])
        place = mesh.get_local_rank("shard")  # each has a batch of its own
        optimizer = OPTIMIZERS["momentum"](model.parameters())
        step(model, optimizer, *batch(0, place))
        differ = pytest.raises(UserError, match=r"'0.weight' is not split, and the processes of le")
        with differ:
            model.monitor()
        run = gossip.record(model, MPI.COMM_WORLD.bcast(tmp_path) / "run", every=1)
        with differ, run:
            step(model, optimizer, *batch(1, place))
            step(model, optimizer, *batch(2, place))
            pytest.fail("the first has been measured")
        dimension = mesh.get_local_rank("learner")
        odd = fully_shard(
            nn.Linear(4, 5, bias=False).double(),
            mesh=mesh["shard"],
            shard_placement_fn=lambda _: Shard(dimension),
        )
        with pytest.raises(UserError, match=r"disagree about shard of weight: 12, 10; shard all"):
            Gossip(odd, W, mesh=mesh["learner"])
        with pytest.raises(UserError, match="each has to be in one place"):
            Gossip(sharded(mesh), W, mesh=mesh[("learner", "shard")[RANK % 2]])
        # Neither has the other's place.
        crossed = DeviceMesh("cpu", [[0, 3], [1, 2]], mesh_dim_names=("pair", "crossed"))
        across = nn.Linear(6, 4, bias=False).double()
        rows = DTensor.from_local(across.weight.detach()[:2], crossed["crossed"], [Shard(0)])
        across.weight = nn.Parameter(rows)
        with pytest.raises(UserError, match=r"'weight' is placed as S\(0\) on process \d, too"):
            Gossip(across, W, mesh=mesh["learner"])
        for group in crossed.get_all_groups():
            dist.destroy_process_group(group)
    dist.barrier()
