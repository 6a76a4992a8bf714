"""Learners of several processes: two of them, sharded, walk the way of two that are not."""

from copy import deepcopy

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from mpi4py import MPI
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.nn.functional import mse_loss

import gossip
from gossip import Averager, Gossip
from gossip.comm.transports.gloo import start_torch_distributed
from gossip.errors import UserError

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
        return nn.Sequential(nn.Linear(6, hidden), nn.Tanh(), nn.Linear(hidden, out)).double()


def sharded(mesh, seed: int = 0, **sizes: int) -> nn.Module:
    made = module(seed, **sizes)
    for part in (*(p for p in made if isinstance(p, nn.Linear)), made):
        fully_shard(part, mesh=mesh["shard"])
    return made


def batch(t: int, learner: int, out: int = 4) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(100 * t + learner)
    return (
        torch.randn(BATCH, 6, dtype=torch.float64, generator=draw),
        torch.randn(BATCH, 4, dtype=torch.float64, generator=draw)[:, :out],
    )


def step(model: nn.Module, optimizer, x: Tensor, y: Tensor) -> None:
    optimizer.zero_grad()
    mse_loss(model(x), y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # over all of a learner's shards
    optimizer.step()


def walk(model: Gossip, optimizer, mesh, steps: range, out: int = 4) -> None:
    """This process's share of each batch of its learner."""
    learner, place = mesh.get_coordinate()
    share = slice(place * BATCH // SHARDS, (place + 1) * BATCH // SHARDS)
    for t in steps:
        x, y = batch(t, learner, out)
        step(model, optimizer, x[share], y[share])


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
    return {name: p.detach().full_tensor() for name, p in model.module.named_parameters()}


def assert_equal(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-12)


ODD = {"hidden": 5, "out": 1}
"""Of two shards one has 3 rows and the other 2; of one row the other has nothing."""


@pytest.mark.parametrize(
    ("order", "optimizer", "sizes"),
    [
        ("awc", "momentum", {}),
        ("atc", "adamw", {}),
        ("awc", "adamw", ODD),
        ("atc", "momentum", ODD),
    ],
)
def test_two_sharded_learners_walk_the_way_of_two_whole_ones(mesh, order, optimizer, sizes):
    seed = mesh.get_local_rank("learner")
    model = Gossip(sharded(mesh, seed, **sizes), W, order=order, mesh=mesh["learner"])
    walk(model, OPTIMIZERS[optimizer](model.parameters()), mesh, range(8), sizes.get("out", 4))
    learners = expected(order, optimizer, 8, **sizes)
    learner, _ = mesh.get_coordinate()
    assert (model.comm.n, model.comm.process) == (LEARNERS, learner)
    assert_equal(whole(model), learners[learner])
    mean = {name: (learners[0][name] + learners[1][name]) / 2 for name in learners[0]}
    seen = model.monitor()
    with model.average():
        assert_equal(whole(model), mean)
    assert_equal(whole(model), learners[learner])
    squares = sum((learners[j][k] - mean[k]).square().sum() for j in range(2) for k in mean)
    assert seen["sigma_w2"] == pytest.approx(float(squares) / LEARNERS**2, rel=1e-12)


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


def test_what_is_not_supported_is_refused(mesh):
    with pytest.raises(UserError, match=r"'0.weight' is a part of one.*mesh=mesh"):
        Gossip(sharded(mesh))
    with pytest.raises(UserError, match=r"Averager: parameter '0.weight' is a part of one"):
        Averager(sharded(mesh).named_parameters())
    with pytest.raises(UserError, match=r"'0.weight' is not sharded"):
        Gossip(module(), mesh=mesh["learner"])
    with pytest.raises(UserError, match=r"only dpsgd, and not yet 'diloco'"):
        Gossip(sharded(mesh), algorithm="diloco", mesh=mesh["learner"])
    with pytest.raises(UserError, match="give one dimension of a torch DeviceMesh"):
        Gossip(sharded(mesh), mesh=mesh)
    model = Gossip(sharded(mesh), W, mesh=mesh["learner"])
    with pytest.raises(UserError, match="learners of several processes"):
        gossip.record(model, "nowhere")
    if SHARDS == 2:
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
    dist.barrier()
