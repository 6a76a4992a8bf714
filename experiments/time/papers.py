"""Seconds that papers have published, and what the models say: AdaDamp, LENA, DATE.

References: Sievert and Shah, arXiv 1910.08222 (AdaDamp); the LENA paper's official code, whose
seconds follow (n/8) t_mb + t_sync (here by the constants of that fit, its residuals at most 2.4 %);
You et al., SC 2019 (DATE: intensity, energy).
"""

import math
from collections.abc import Iterator

from experiments.adadamp.workers import BATCH as FIG7_BATCH
from experiments.adadamp.workers import PUBLISHED as FIG7
from experiments.time.rows import Row
from experiments.time.size import Size
from gossip.simulate.slots import ADADAMP, GRADIENT, PER_TASK, Slots, Stretch

SAMPLES, EPOCHS = 50_000, (60, 60, 60, 20)
BATCHES = {
    "5.1k(*2)": (256, 1280, 5120, 5120),
    "3.2k": (128, 640, 3200, 3200),
    "16k": (128, 640, 3200, 16000),
    "640": (128, 640, 640, 640),
    "128": (128, 128, 128, 128),
}
"""Batch in each of EPOCHS, by run of Table 1."""
MINUTES = {
    "5.1k(*2)": (69.9, 45.1, 43.5),
    "3.2k": (107.2, 67.7, 65.5),
    "16k": (107.5, 67.7, 65.7),
    "640": (116.9, 73.6, 71.8),
    "128": (200.2, 121.7, 121.5),
}
"""Table 2, by run, over the networks of ADADAMP."""
WORKERS = (1, 2, 5, 10, 25, 40, 125)
MEDIANS_MS = {
    "centralised": (153.6, 158.77, 308.19, 467.72, 1052.98, 1519.81, 4694.66),
    "moderate": (93.35, 100.05, 199.43, 306.43, 701.21, 1012.67, 3178.71),
    "high": (93.15, 98.14, 191.16, 291.29, 644.91, 938.01, 2835.42),
}
"""Median update of the published histories, over WORKERS."""
LENA = {
    "ResNet-18": {
        "LSW": (0.11295, 0.0151),
        "AdaScale": (0.11295, 0.0175),
        "LENA": (0.11295, 0.0262),
    },
    "ResNet-50": {"LSW": (0.2221, 0.0377), "AdaScale": (0.2315, 0.0379), "LENA": (0.23, 0.0494)},
}
"""(t_mb, t_sync) in seconds, by model and method."""
LENA_MACHINES, LENA_LEARNERS = 8, (8, 16, 32, 64, 128)
FLOPS = {"AlexNet": (1.5e9, 61e6), "ResNet-50": (7.7e9, 25e6)}
"""FLOP of a sample, and parameters."""
PJ_FLOP, PJ_WORD = 100.0, 2500.0
"""Energy of a FLOP and of a word that goes to a neighbour, pJ."""
ENERGY_FACTORS = (1, 2, 8, 32, 128)
"""k = B / B_0 of Fig. 19."""


def rows(size: Size) -> Iterator[Row]:
    """All that needs no simulation of learners."""
    yield from _adadamp()
    yield from _lena()
    yield from _date()


def _adadamp() -> Iterator[Row]:
    for run, published in MINUTES.items():
        history = [
            Stretch(epochs * math.ceil(SAMPLES / batch), batch)
            for epochs, batch in zip(EPOCHS, BATCHES[run], strict=True)
        ]
        for (network, slots), minutes in zip(ADADAMP.items(), published, strict=True):
            ours = slots.replay(history) / 60
            yield _row("adadamp", run, network, value=ours, reference=minutes)
            honest = slots.unlimited().replay(history) / 60
            yield _row("adadamp-unlimited", run, network, value=honest, reference=minutes)
    for network, medians in MEDIANS_MS.items():
        for workers, ms in zip(WORKERS, medians, strict=True):
            ours = 1e3 * ADADAMP[network].update(workers)
            yield _row("adadamp-median", network, n=workers, value=ours, reference=ms)
    for samples, seconds in FIG7.items():
        workers = FIG7_BATCH // samples
        slots = Slots(
            copy=lambda workers: 0.0,
            overhead=lambda workers: 11.8e-3 + 5.7e-3 * workers,
            slots=16,
            gradient=GRADIENT / 2 * samples / PER_TASK,
        )
        ours = math.ceil(SAMPLES / FIG7_BATCH) * slots.update(workers)
        yield _row("adadamp-fig7", str(samples), n=workers, value=ours, reference=seconds)


def _lena() -> Iterator[Row]:
    for model, methods in LENA.items():
        for method, (micro_batch, sync) in methods.items():
            for n in LENA_LEARNERS:
                seconds = n / LENA_MACHINES * micro_batch + sync
                yield _row("lena", method, model, n=n, value=seconds)


def _date() -> Iterator[Row]:
    for model, (flop, parameters) in FLOPS.items():
        yield _row("intensity", model, value=flop / parameters)
        # A step of one sample: forward and backward are three passes; a ring moves two rows.
        yield _row("energy", model, value=2 * parameters * PJ_WORD / (3 * flop * PJ_FLOP))
    for k in ENERGY_FACTORS:
        yield _row("energy-factor", str(k), value=math.sqrt(k) / k)


def _row(
    table: str, name: str, how: str = "", *, n: int = 0, value: float, reference: float = math.nan
) -> Row:
    return Row(
        part="papers", table=table, name=name, how=how, n=n, value=value, reference=reference
    )
