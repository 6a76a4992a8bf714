"""Gossip in a user's own loop walks the harness's trajectory, in float64, and equals DDP in ATC."""

from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch
from mpi4py import MPI
from torch import nn
from torch.nn.functional import cross_entropy

from gossip import Averager, Gossip
from gossip.comm.transports.gloo import start_torch_distributed
from gossip.comm.transports.mpi import Mpi
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.errors import UserError
from gossip.study import Study, algorithm, prepare
from gossip.train import train
from tests import recorded

pytestmark = pytest.mark.mpi

N, RANK = MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank
STEPS = 12
OPTIMIZERS = {
    "sgd": (Rate(lr=0.3), partial(torch.optim.SGD, lr=0.3)),
    "momentum": (Rate(lr=0.1, momentum=0.9), partial(torch.optim.SGD, lr=0.1, momentum=0.9)),
    "adam": (Rate(lr=0.01, optimizer="adam"), partial(torch.optim.Adam, lr=0.01)),
}


def study(rate: Rate = OPTIMIZERS["momentum"][0], **gossip: object) -> Study:
    config = Config(
        algorithm=("dpsgd",),
        steps=STEPS,
        gossip=Averaging(learners=N, **gossip),
        data=Data(dataset="digits", batch_size=10),
        model=Model(widths=(12,), dtype="float64"),
        rate=rate,
        monitoring=Monitoring(monitor="cheap", monitor_every=STEPS),
    )
    return prepare(config, Mpi(N))


def module_of(study: Study) -> nn.Module:
    module = study.task.build().double()
    nn.utils.vector_to_parameters(study.task.init(study.config.seed), module.parameters())
    return module


def loss_of(model: nn.Module, study: Study, t: int) -> torch.Tensor:
    inputs, labels = study.task.train.batch(study.sampler.indices(t))
    return cross_entropy(model(inputs[0]), labels[0])


def walk(model: nn.Module, optimizers: list, study: Study, steps: range = range(STEPS)) -> None:
    for t in steps:
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss_of(model, study, t).backward()
        for optimizer in optimizers:
            optimizer.step()


def flat(module: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(module.parameters()).detach().clone()


def everyones(row: torch.Tensor) -> torch.Tensor:
    """[n, *row.shape]."""
    return torch.from_numpy(np.array(MPI.COMM_WORLD.allgather(row.detach().numpy())))


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def harness(study: Study) -> torch.Tensor:
    return train(study, algorithm("dpsgd", study)).state.x[0]


@pytest.mark.parametrize("order", ["awc", "atc"])
@pytest.mark.parametrize("topology", ["ring", "one-peer-exponential", "matching"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_users_loop_walks_the_harness_trajectory(optimizer, topology, order):
    rate, make = OPTIMIZERS[optimizer]
    chosen = study(rate, topology=topology, order=order)
    module = module_of(chosen)
    model = Gossip(module, topology, order=order, seed=chosen.config.seed)
    walk(model, [make(model.parameters())], chosen)
    close(flat(module), harness(chosen))


def test_mixing_every_third_step_is_the_harness_s():
    chosen = study(topology="one-peer-exponential", mix_every=3)
    module = module_of(chosen)
    model = Gossip(module, mix_every=3)
    walk(model, [OPTIMIZERS["momentum"][1](module.parameters())], chosen)
    close(flat(module), harness(chosen))


@pytest.mark.parametrize("order", ["awc", "atc"])
def test_two_optimizers_of_half_the_parameters_are_one_of_all(order):
    chosen = study(topology="ring", order=order)
    module = module_of(chosen)
    model = Gossip(module, "ring", order=order)
    first, *rest = module.parameters()
    make = OPTIMIZERS["momentum"][1]
    walk(model, [make([first]), make(rest)], chosen)
    close(flat(module), harness(chosen))


@pytest.mark.parametrize("order", ["awc", "atc"])
def test_accumulated_gradients_are_one_step(order):
    chosen = study(topology="one-peer-exponential", order=order)
    module = module_of(chosen)
    model = Gossip(module, order=order)
    optimizer = OPTIMIZERS["momentum"][1](module.parameters())
    for t in range(STEPS):
        optimizer.zero_grad()
        for _ in range(2):
            (loss_of(model, chosen, t) / 2).backward()
        optimizer.step()
    close(flat(module), harness(chosen))


def test_accumulation_as_it_is_written_for_ddp_is_one_step():
    chosen = study(topology="one-peer-exponential")
    module = module_of(chosen)
    model = Gossip(module)
    optimizer = OPTIMIZERS["momentum"][1](module.parameters())
    for t in range(STEPS):
        optimizer.zero_grad()
        with model.no_sync():
            (loss_of(model, chosen, t) / 2).backward()
        (loss_of(model, chosen, t) / 2).backward()
        optimizer.step()
    close(flat(module), harness(chosen))


def test_steps_in_no_sync_are_local_and_do_not_move_the_topology_on():
    chosen = study()
    module, alone = module_of(chosen), module_of(chosen)
    model = Gossip(module)
    make = OPTIMIZERS["momentum"][1]
    with model.no_sync():
        walk(model, [make(module.parameters())], chosen)
    walk(alone, [make(alone.parameters())], chosen)
    assert torch.equal(flat(module), flat(alone))
    assert model.get_extra_state()["step"] == 0
    assert model.traffic.bytes_sent_per_learner == 0


@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
def test_atc_with_the_complete_graph_is_ddp(optimizer):
    start_torch_distributed()
    chosen, make = study(), OPTIMIZERS[optimizer][1]
    module, replica = module_of(chosen), module_of(chosen)
    model = Gossip(module, "complete", order="atc")
    walk(model, [make(module.parameters())], chosen)
    ddp = nn.parallel.DistributedDataParallel(replica)
    walk(ddp, [make(replica.parameters())], chosen)
    close(flat(module), flat(replica))


def test_an_averager_behind_the_step_is_atc():
    chosen = study(topology="ring", order="atc")
    module = module_of(chosen)
    averager = Averager(module.parameters(), "ring")
    optimizer = OPTIMIZERS["momentum"][1](module.parameters())
    for t in range(STEPS):
        walk(module, [optimizer], chosen, range(t, t + 1))
        averager.step()
    close(flat(module), harness(chosen))


@pytest.mark.parametrize("order", ["awc", "atc"])
def test_a_step_that_the_scaler_skips_on_one_learner_is_averaged_all_the_same(order):
    chosen = study(topology="ring")
    module = module_of(chosen)
    model = Gossip(module, "ring", order=order)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for t in range(3):
        optimizer.zero_grad()
        # The last one, too: only average() below, or the end of the script, can tell then.
        bad = RANK == N - 1 and t != 1
        loss = loss_of(model, chosen, t) * (torch.inf if bad else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    with model.average():
        pass
    assert model.get_extra_state()["step"] == 3
    close(everyones(flat(module)), skipping(chosen, order))


def skipping(study: Study, order: str) -> torch.Tensor:
    """The trajectory of three steps on the ring, of which the last learner skips two; [n, d]."""
    w = torch.from_numpy(study.topology.matrix(0).toarray())
    x = study.task.init(study.config.seed).repeat(N, 1)
    for t in range(3):
        gradients = torch.zeros_like(x)
        for j in range(N):
            module = module_of(study)
            nn.utils.vector_to_parameters(x[j], module.parameters())
            sampler = prepare(study.config, Others(N)).sampler
            inputs, labels = study.task.train.batch(sampler.indices(t))
            cross_entropy(module(inputs[j]), labels[j]).backward()
            skips = j == N - 1 and t != 1
            if not skips:
                gradients[j] = torch.cat([p.grad.reshape(-1) for p in module.parameters()])
        x = w @ (x - 0.1 * gradients) if order == "atc" else w @ x - 0.1 * gradients
    return x


class Others(Mpi):
    """All learners in this process, for their batches."""

    def __init__(self, n: int) -> None:
        super().__init__(n, MPI.COMM_SELF)


def test_average_shows_the_mean_and_gives_the_own_weights_back():
    chosen = study(topology="ring")
    module = module_of(chosen)
    model = Gossip(module, "ring")
    optimizer = OPTIMIZERS["momentum"][1](module.parameters())
    walk(model, [optimizer], chosen)
    own = flat(module)
    mean = everyones(own).mean(dim=0)
    with pytest.raises(UserError, match="leave the block"), model.average() as shown:  # noqa: PT012
        close(flat(shown), mean)
        optimizer.step()
    assert torch.equal(flat(module), own)
    walk(model, [optimizer], chosen)  # goes on


def test_looking_at_the_mean_between_forward_and_step_changes_nothing():
    chosen = study(topology="one-peer-exponential")
    module = module_of(chosen)
    model = Gossip(module)
    optimizer = OPTIMIZERS["momentum"][1](module.parameters())
    for t in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, chosen, t).backward()
        with model.average():
            pass
        model.monitor()
        optimizer.step()
    close(flat(module), harness(chosen))


def test_monitor_is_the_spread_of_weights_and_gradients():
    chosen = study(topology="ring")
    module = module_of(chosen)
    model = Gossip(module, "ring")
    walk(model, [OPTIMIZERS["momentum"][1](module.parameters())], chosen)
    x = everyones(flat(module))
    own = torch.cat([p.grad.reshape(-1) for p in module.parameters()])
    g = everyones(own)
    squares = (x - x.mean(dim=0)).square().sum().item()
    assert model.monitor() == pytest.approx(
        {
            "step": STEPS,
            "sigma_w2": squares / N**2,
            "sigma_w2_coord": squares / max(N - 1, 1) / x.shape[1],
            "consensus_distance": (squares / N) ** 0.5,
            "grad_a_norm": g.mean(dim=0).norm().item(),
            "grad_norm_max": g.norm(dim=1).max().item(),
        },
        rel=1e-12,
    )


@pytest.mark.parametrize("order", ["awc", "atc"])
def test_a_run_goes_on_from_its_state_bit_for_bit(order):
    chosen, make = study(topology="one-peer-exponential"), OPTIMIZERS["momentum"][1]
    module, again = module_of(chosen), module_of(chosen)
    model = Gossip(module, order=order)
    optimizer = make(module.parameters())
    walk(model, [optimizer], chosen, range(5))
    weights = deepcopy(model.state_dict())
    state = deepcopy(optimizer.state_dict())
    resumed = Gossip(again, order=order)
    resumed.load_state_dict(weights)
    other = make(again.parameters())
    other.load_state_dict(state)
    walk(model, [optimizer], chosen, range(5, STEPS))
    walk(resumed, [other], chosen, range(5, STEPS))
    assert torch.equal(flat(again), flat(module))
    close(flat(module), harness(study(topology="one-peer-exponential", order=order)))


def test_all_begin_with_what_the_first_process_has():
    torch.manual_seed(RANK)
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    module[0].weight.requires_grad_(False)
    module[1].num_batches_tracked.fill_(RANK + 7)
    module.register_buffer("mask", torch.full((2,), float("-inf") if RANK == 0 else torch.nan))
    module.register_buffer("phase", torch.tensor([1j * (RANK + 1)]))
    first = {k: v.clone() for k, v in MPI.COMM_WORLD.bcast(module.state_dict()).items()}
    Gossip(module)
    for name, value in module.state_dict().items():
        assert torch.equal(value, first[name]), name


@pytest.mark.parametrize("policy", ["average", "local", "recalibrate"])
def test_buffers_of_the_mean_model(policy):
    torch.manual_seed(RANK)
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()
    model = Gossip(module, "ring", buffers=policy)
    batches = [(torch.randn(8, 3, dtype=torch.float64), None) for _ in range(3)]
    for inputs, _ in batches:
        model(inputs * (RANK + 1)).square().sum().backward()
        torch.optim.SGD(module.parameters(), lr=0.01).step()
    norm = module[1]
    before = {name: value.clone() for name, value in module.state_dict().items()}
    means = everyones(norm.running_mean)
    variances = everyones(norm.running_var)
    with model.average(batches if policy == "recalibrate" else None):
        if policy == "recalibrate":
            own = [module[0](inputs) for inputs, _ in batches]
            means = everyones(torch.stack([x.mean(0) for x in own]).mean(0))
            variances = everyones(torch.stack([x.var(0) for x in own]).mean(0))
        mean = means.double().mean(0)
        var = (variances.double() + means.double().square()).mean(0) - mean.square()
        if policy == "local":
            mean, var = before["1.running_mean"], before["1.running_var"]
        torch.testing.assert_close(norm.running_mean, mean, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(norm.running_var, var, rtol=1e-6, atol=1e-6)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert norm.momentum == 0.1
    assert norm.training


@pytest.mark.skipif(N == 1, reason="nobody differs from oneself")
def test_the_first_parameter_that_differs_is_named():
    width = 5 if RANK == N - 1 else 4
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, width), nn.Linear(width, 2))
    with pytest.raises(
        UserError, match=rf"1\.weight: .*\[4, 4\].*\[5, 4\] on process {N - 1}"
    ) as e:
        Gossip(module)
    assert "2.weight" not in str(e.value)


@pytest.mark.skipif(N == 1, reason="nobody differs from oneself")
def test_one_learners_mistake_is_everybodys():
    module = nn.Linear(2, 2)
    if RANK == N - 1:
        module.requires_grad_(False)
    with pytest.raises(UserError, match="all 2 are frozen"):
        Gossip(module)
    with pytest.raises(UserError, match="disagree about order"):
        Gossip(nn.Linear(2, 2), order="atc" if RANK == 0 else "awc")
    with pytest.raises(UserError, match="disagree about topology"):
        Gossip(nn.Linear(2, 2), "ring" if RANK == 0 else "complete")


def test_half_precision_weights_are_averaged():
    module = nn.Linear(3, 2).bfloat16()
    model = Gossip(module, "complete", order="atc")
    assert module.weight.data_ptr() % 64 == module.bias.data_ptr() % 64 == 0
    with torch.no_grad():
        module.bias.fill_(RANK)
    torch.optim.SGD(model.parameters(), lr=0.0).step()
    expected = torch.full((2,), (N - 1) / 2, dtype=torch.bfloat16)
    torch.testing.assert_close(module.bias.detach(), expected)


@pytest.mark.parametrize("case", recorded.CASES)
def test_a_recording_measures_what_the_harness_does(case, tmp_path):
    out = MPI.COMM_WORLD.bcast(tmp_path / "run")
    chosen = recorded.study(Mpi(N), recorded.CASES[case])
    recorded.walk(chosen, out)
    recorded.assert_same(chosen, out)
