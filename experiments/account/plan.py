"""The runs of the study: few that are measured in full, and many that are looked at cheaply."""

from experiments.account.size import Size
from gossip.config import Averaging, Config, Data, Monitoring, Rate

STUDY = "account"
PARTS = ("account", "spread")


def account_key(seed: int) -> str:
    """The name of a run that is measured in full."""
    return f"account-seed{seed}"


def spread_key(alpha: float, topology: str, seed: int) -> str:
    """The name of a run whose spread is predicted."""
    return f"spread-alpha{alpha:g}-{topology}-seed{seed}"


def runs(part: str, size: Size) -> dict[str, Config]:
    """The runs of one of PARTS."""
    if part == "account":
        return {account_key(seed): account(seed, size) for seed in size.seeds}
    return {
        spread_key(alpha, topology, seed): spread(alpha, topology, seed, size)
        for alpha in size.spread_alphas
        for topology in size.topologies
        for seed in size.spread_seeds
    }


def account(seed: int, size: Size) -> Config:
    """DPSGD with W = J, all of the monitor's columns, g exact."""
    monitoring = Monitoring(monitor="full", monitor_every=size.monitor_every)
    return _config(seed, size.alpha, "complete", size.learners, size.steps, monitoring, size)


def spread(alpha: float, topology: str, seed: int, size: Size) -> Config:
    """DPSGD on a topology, only its spread looked at."""
    monitoring = Monitoring(monitor="cheap", monitor_every=size.spread_every)
    n = size.spread_learners
    return _config(seed, alpha, topology, n, size.spread_steps, monitoring, size)


def _config(
    seed: int,
    alpha: float,
    topology: str,
    learners: int,
    steps: int,
    monitoring: Monitoring,
    size: Size,
) -> Config:
    batch = size.total_batch // learners
    return Config(
        algorithm=("dpsgd",),
        steps=steps,
        seed=seed,
        gossip=Averaging(learners=learners, topology=topology, backend="stacked"),
        data=Data(dataset=size.dataset, inputs="unit", batch_size=batch),
        rate=Rate(lr=alpha),
        monitoring=monitoring,
    )
