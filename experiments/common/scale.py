"""Sizes and shared settings of the studies, at full scale and for a smoke test of their code."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from gossip.config import Averaging, Config, Data, Monitoring, Rate

HERE = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Settings that all runs of the studies share, and the folders of runs and results."""

    dataset: str = "mnist"
    total_batch: int = 2000
    """n B, whatever the number of learners."""
    steps: int = 1500
    """Horizon of most runs, and the fixed time at which runs of any length are compared."""
    long_steps: int = 2500
    """Horizon at the paper's learning rate, alpha = 1."""
    checkpoints: tuple[int, ...] = (500, 1000, 1500, 2500)
    """Steps whose test error goes into the results."""
    late: int = 100
    """Number of last steps by which a run is judged to oscillate."""
    monitor_every: int = 50
    seeds: int = 5
    few_seeds: int = 3
    """Number of seeds where a configuration is one of many."""
    noise_exponents: tuple[float, ...] = (-5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0)
    """The paper's range of sigma_0, as exponents of ten: where a bisection starts."""
    bisection_rounds: int = 3
    noise_factors: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    """The grid around the best sigma_0 of a bisection."""
    runs: Path = HERE.parent / "runs" / "experiments"
    results: Path = HERE / "results"
    page: Path = HERE / "README.md"
    is_smoke: bool = False


FULL = Scale()


def smoke(folder: Path | None = None) -> Scale:
    """A scale at which all code runs in seconds and no number means anything."""
    folder = folder or Path(mkdtemp(prefix="experiments-smoke-"))
    return Scale(
        dataset="digits",
        total_batch=160,
        steps=12,
        long_steps=16,
        checkpoints=(4, 8, 12, 16),
        late=5,
        monitor_every=2,
        seeds=1,
        few_seeds=1,
        noise_exponents=(-5.0, -2.0, 1.0),
        bisection_rounds=1,
        noise_factors=(1.0, 2.0),
        runs=folder / "runs",
        results=folder / "results",
        page=folder / "README.md",
        is_smoke=True,
    )


def run_config(
    scale: Scale,
    gossip: Averaging,
    *,
    algorithm: str,
    alpha: float,
    seed: int,
    steps: int | None = None,
    inputs: str = "unit",
    monitor: str = "standard",
) -> Config:
    """A run of the DPSGD paper's MNIST set-up: 784-50-50-10 ReLU, constant alpha."""
    return Config(
        algorithm=(algorithm,),
        steps=steps or scale.steps,
        seed=seed,
        gossip=gossip,
        data=Data(
            dataset=scale.dataset,
            inputs=inputs,
            batch_size=scale.total_batch // gossip.learners,
        ),
        rate=Rate(lr=alpha),
        monitoring=Monitoring(monitor=monitor, monitor_every=scale.monitor_every),
    )
