"""An algorithm's pattern is what it does: the calls of a step, in their order."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy.sparse import csr_array
from torch import Tensor

import topologies
from gossip.algorithms import ALGORITHMS, ASYNCHRONOUS, NOISE_MODES, ORDERS, AlgorithmSettings
from gossip.algorithms import pattern as phases
from gossip.algorithms.deviations import NOISES
from gossip.asynchronous.pairwise import PairwiseRow
from gossip.comm import costs
from gossip.comm.base import Traffic, messages
from gossip.comm.stacked import Stacked
from gossip.task import Gradients
from gossip.trace import Trace
from tests.fits import SHORT, topologies_of
from tests.problems import optimizer, quadratic

N, D, STEPS = 6, 6, 9


class Recording(Stacked):
    """Notes what is started and what is waited for."""

    def __init__(self, n: int, calls: list[str]) -> None:
        super().__init__(n)
        self.calls = calls

    def start_mix(self, x: Tensor, w: csr_array, *decode: Any) -> Callable[[], Tensor]:
        pending = super().start_mix(x, w, *decode)
        self.calls.append("start")

        def wait() -> Tensor:
            self.calls.append("wait")
            return pending()

        return wait

    def gather(self, x: Tensor) -> Tensor:
        self.calls += ["start", "wait"]
        return super().gather(x)

    def mean(self, x: Tensor) -> Tensor:
        self.calls.append("mean")
        return super().mean(x)

    def start_mean(self, x: Tensor) -> Callable[[], Tensor]:
        pending = super().start_mean(x)
        self.calls.append("start mean")

        def wait() -> Tensor:
            self.calls.append("wait for mean")
            return pending()

        return wait


def expected(pattern: phases.Pattern, t: int) -> list[str]:
    calls = []
    for phase in at(pattern, t):
        match phase:
            case phases.LocalGradient():
                calls += ["gradient"]
            case phases.Mix() | phases.AllGather() | phases.Partner():
                calls += ["start", "wait"]
            case phases.Mean():
                calls += ["mean"]
            case phases.Overlapped(phases.Mix(), phases.LocalGradient()):
                calls += ["start", "gradient", "wait"]
            case phases.Late():
                calls += ["wait for mean"]
    ahead = [k for phase in pattern if (k := lateness(phase)) is not None]
    for steps in ahead:
        if any(isinstance(phase, phases.Late) for phase in at(pattern, t + steps)):
            calls.insert(len(calls) if steps else calls.index("wait for mean"), "start mean")
    return calls


def lateness(phase: phases.Phase) -> int | None:
    """Steps that an average travels, if it does."""
    late = isinstance(phase, phases.Every) and isinstance(phase.phase, phases.Late)
    return phase.phase.steps if late else None


def at(pattern: phases.Pattern, t: int) -> list[phases.Phase]:
    """The phases of step t."""
    found = []
    for phase in pattern:
        match phase:
            case phases.Every(steps=steps, phase=inner, after=after):
                found += [inner] if t + 1 in range(after + steps, 99, steps) else []
            case phases.Until(steps=steps, phase=inner):
                found += [inner] if t < steps else []
            case _:
                found.append(phase)
    return found


def once(calls: list[str]) -> list[str]:
    """Messages that leave together, or are waited for together, are one phase."""
    return [
        call
        for before, call in zip(["", *calls], calls, strict=False)
        if not (call == before and call in ("start", "wait"))
    ]


def sent(algorithm: Any, w: csr_array, t: int) -> float:
    """Bytes of step t by the formulas of traffic, in float64; compressed, those of the payload."""
    total = 0.0
    for phase in at(algorithm.pattern, t):
        match phase:
            case phases.Mix() | phases.Overlapped(first=phases.Mix()):
                mix = phase if isinstance(phase, phases.Mix) else phase.first
                size = 8 * (D * mix.rows + mix.numbers)
                if hasattr(algorithm, "payload_bytes"):
                    size = algorithm.payload_bytes(D, 8)
                total += costs.mix(messages(w), size).bytes
            case phases.Mean() | phases.Late(phase=phases.Mean()):
                phase = phase.phase if isinstance(phase, phases.Late) else phase
                size = 8 * (D * phase.rows + phase.numbers)
                if phase.rows < 1 and hasattr(algorithm, "payload_bytes"):
                    size = algorithm.payload_bytes(D, 8)
                total += costs.mean(N, size).bytes
            case phases.AllGather(rows=rows):
                size = 8 * D * rows
                if hasattr(algorithm, "payload_bytes"):
                    size = algorithm.payload_bytes(D, 8)
                total += costs.mix(N - 1, size).bytes
            case phases.Partner(rows=rows):
                total += costs.mix(1, 8 * D * rows).bytes
    return total


def settings(order: str = "awc", mode: str = "eval") -> AlgorithmSettings:
    return AlgorithmSettings(order, 0.1, mode, 0, SHORT)


VARIED = ("dpsgd", "ssgd-star", "ssgd-injected")
KINDS = (*NOISES, "twin")
CASES = [
    *(("dpsgd", settings(order=order)) for order in ORDERS),
    *(("ssgd-star", settings(mode=mode)) for mode in NOISE_MODES),
    *(("ssgd-injected", settings()._replace(options={"noise": kind})) for kind in KINDS),
    *((name, settings()) for name in ALGORITHMS if name not in VARIED),
]


@pytest.mark.parametrize(("name", "chosen"), CASES)
def test_a_step_makes_the_calls_of_its_pattern_and_sends_what_they_cost(name, chosen):
    assert_pattern(name, chosen)


@pytest.mark.parametrize("kind", KINDS)
def test_a_recorded_strength_is_in_the_pattern(kind, tmp_path):
    with Trace(tmp_path, ["sigma_w2"]) as trace:
        trace.append([{"step": 0, "sigma_w2": 1.0}])
    options = {"noise": kind, "strength_from": str(tmp_path)}
    assert_pattern("ssgd-injected", settings()._replace(options=options))


def assert_pattern(name: str, chosen: AlgorithmSettings) -> None:
    algorithm = ALGORITHMS[name](optimizer(), chosen)
    _, _, plain = quadratic(D, N)
    calls: list[str] = []
    comm = Recording(N, calls)

    def gradient(x: Tensor) -> Gradients:
        calls.append("gradient")
        return plain(x)

    state = algorithm.init(torch.ones(D, dtype=torch.float64), N)
    w = topologies.build(topologies_of(name)[0], N).matrix(0)
    stated: list[str] = []
    for t in range(STEPS):
        state, _ = algorithm.step(state, gradient, w, lambda *_: 0.1, comm)
        stated += expected(algorithm.pattern, t)
    assert once(calls) == stated
    assert calls, "a pattern that is empty would say nothing"
    formulas = sum(sent(algorithm, w, t) for t in range(STEPS))
    assert comm.traffic.bytes_sent_per_learner == pytest.approx(formulas)


def test_counters_count_by_the_formulas():
    traffic = Traffic()
    traffic.count_mix(2, 400)
    traffic.count_mean(5, 400)
    assert traffic.bytes_sent_per_learner == 2 * 400 + 2 * 4 / 5 * 400
    assert traffic.messages_per_learner == 2 + 8


def test_learners_without_a_common_step_average_by_pairs():
    patterns = [make(optimizer(), settings()).pattern for make in ASYNCHRONOUS.values()]
    assert patterns == [(phases.Pairwise(),)]
    # One message there, one back: what its docstring promises and `PairwiseRow` of MPI does.
    assert phases.Pairwise().trips == 2
    assert costs.pair(100) == costs.mix(2, 100)
    assert "sends d back" in (PairwiseRow.__doc__ or "")
