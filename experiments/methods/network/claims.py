"""What is to be decided between hosts, by criteria that were fixed before anything was measured.

Student's 95 % intervals over seeds, of logarithms of ratios of runs of one seed.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from experiments.common.claims import Claim, Verdict
from experiments.common.statistics import Criterion, mean
from experiments.methods.claims import seconds
from experiments.methods.network import rows
from experiments.methods.network.rows import Measured
from experiments.methods.network.size import TEXT, Network
from experiments.methods.network.ways import OURS, WAYS, compared

SAME = 1.1
"""Times within which two count as equally fast."""


def sooner(mbits: float, delay_ms: float, ours: str, theirs: str) -> Callable[[Measured], Verdict]:
    """The ratio of seconds to the target is below 1, interval and all."""
    return _seconds(Network(mbits, delay_ms), ours, theirs, Criterion(high=0.0))


def no_slower(
    mbits: float, delay_ms: float, ours: str, theirs: str
) -> Callable[[Measured], Verdict]:
    """The upper end of the ratio of seconds to the target is below SAME."""
    return _seconds(Network(mbits, delay_ms), ours, theirs, Criterion(high=math.log(SAME)))


def _seconds(
    network: Network, ours: str, theirs: str, criterion: Criterion
) -> Callable[[Measured], Verdict]:
    return lambda made: _judged(
        made.seconds(network, ours), made.seconds(network, theirs), criterion, seconds
    )


def fewer_bytes(ours: str, theirs: str) -> Callable[[Measured], Verdict]:
    """The ratio of bytes to the target is below 1, interval and all."""
    return lambda made: _judged(
        made.megabytes(ours), made.megabytes(theirs), Criterion(high=0.0), megabytes
    )


def _judged(
    ours: Sequence[float] | None,
    theirs: Sequence[float] | None,
    criterion: Criterion,
    said: Callable[[float], str],
) -> Verdict:
    """One that does not come to the target in all runs is later than one that does."""
    if ours is None or theirs is None:
        return None
    first, second = rows.mean(ours), rows.mean(theirs)
    text = f"{said(first)} for {said(second)}"
    if math.isnan(first) or math.isnan(second):
        both = math.isnan(first) and math.isnan(second)
        return ("open" if both else "no" if math.isnan(first) else "yes"), text
    ratios = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    return criterion.verdict(mean(ratios)), text


def megabytes(value: float) -> str:
    """As a page says it; never, if not all runs came there."""
    return "never" if math.isnan(value) else f"{value:.3g} MB"


def first(mbits: float, delay_ms: float) -> Callable[[Measured], Verdict]:
    """One of OURS has the least mean seconds to the target of all ways."""
    network = Network(mbits, delay_ms)

    def measured(made: Measured) -> Verdict:
        found = ranking(made, network)
        if found is None:
            return None
        place = next((i for i, (_, way) in enumerate(found) if way in OURS), None)
        if place is None:
            return False, "none of ours reaches the target in all runs"
        own, mine = found[place]
        text = f"{WAYS[mine].label}: {seconds(own)}, place {place + 1}"
        if place:
            text += f" behind {WAYS[found[0][1]].label}: {seconds(found[0][0])}"
        return place == 0, text

    return measured


def ranking(made: Measured, network: Network) -> list[tuple[float, str]] | None:
    """Mean seconds to the target, in order, of those that reach it; None while some are missing."""
    found = {way: made.seconds(network, way) for way in compared(made.size)}
    if None in found.values():
        return None
    means = [(rows.mean(values), way) for way, values in found.items()]
    return sorted(each for each in means if math.isfinite(each[0]))


_SOONER = "ratio of seconds to the target below 1, interval and all"
_SAME = f"upper end of the ratio of seconds to the target below {SAME:g}"
_FEWER = "ratio of bytes to the target below 1, interval and all"

_MNIST = (
    *(
        Claim(f"{'DPSGD with one peer is sooner than DDP' if i == 0 else '...'}: "
              f"{Network(*where)}", _SOONER, sooner(*where, "one-peer", "ddp"))
        for i, where in enumerate(((10, 0), (10, 20), (100, 0), (100, 50), (1000, 0)))
    ),
    Claim("... with fewer bytes", _FEWER, fewer_bytes("one-peer", "ddp")),
    Claim("Int8 on the ring is sooner than DDP with bf16: 10 Mbit/s, 0 ms", _SOONER,
          sooner(10, 0, "int8", "ddp-bf16")),
    Claim("... 100 Mbit/s, 50 ms", _SOONER, sooner(100, 50, "int8", "ddp-bf16")),
    Claim("SSGD is no slower than DDP: 10 Mbit/s, 0 ms", _SAME, no_slower(10, 0, "ssgd", "ddp")),
    Claim("... 1000 Mbit/s, 0 ms, where it is Python that takes the time", _SAME,
          no_slower(1000, 0, "ssgd", "ddp")),
    Claim("PowerSGD is no slower than DDP with that hook: 10 Mbit/s, 0 ms", _SAME,
          no_slower(10, 0, "powersgd", "ddp-powersgd")),
    Claim("... 100 Mbit/s, 50 ms", _SAME, no_slower(100, 50, "powersgd", "ddp-powersgd")),
    Claim("Post-local SGD is no slower than torch's: 10 Mbit/s, 20 ms", _SAME,
          no_slower(10, 20, "post-local", "torch-post-local")),
    Claim("... 1000 Mbit/s, 0 ms", _SAME, no_slower(1000, 0, "post-local", "torch-post-local")),
    Claim("DPSGD with one peer is sooner than decent-dp with one peer: 10 Mbit/s, 0 ms", _SOONER,
          sooner(10, 0, "one-peer", "decent-one-peer")),
    Claim("... 100 Mbit/s, 50 ms", _SOONER, sooner(100, 50, "one-peer", "decent-one-peer")),
    Claim("DiLoCo is sooner than DDP with PowerSGD: 10 Mbit/s, 20 ms", _SOONER,
          sooner(10, 20, "diloco", "ddp-powersgd")),
    Claim("... than torch's PostLocalSGD", _SOONER,
          sooner(10, 20, "diloco", "torch-post-local")),
    Claim("What overlaps pays: Streaming DiLoCo is sooner than DiLoCo, 10 Mbit/s, 20 ms", _SOONER,
          sooner(10, 20, "streaming", "diloco")),
    Claim("... 100 Mbit/s, 50 ms", _SOONER, sooner(100, 50, "streaming", "diloco")),
    *(
        Claim(f"{'First of all is one of ours' if i == 0 else '...'}: {Network(*where)}",
              "least mean seconds to the target", first(*where))
        for i, where in enumerate(
            ((10, 0), (10, 20), (100, 0), (100, 20), (100, 50), (1000, 0), (1000, 20))
        )
    ),
)  # fmt: skip


def _everywhere(
    statement: str, criterion: str, judge: Callable[[float, float], Callable[[Measured], Verdict]]
) -> Iterator[Claim[Measured]]:
    """The same on each network of the text."""
    for i, network in enumerate(TEXT.networks):
        said = "..." if i else statement
        yield Claim(f"{said}: {network}", criterion, judge(*network))


_TEXT = (
    *_everywhere("DPSGD with one peer is sooner than DDP", _SOONER,
                 partial(sooner, ours="one-peer", theirs="ddp")),
    Claim("... with fewer bytes", _FEWER, fewer_bytes("one-peer", "ddp")),
    *_everywhere("Int8 on the ring is sooner than DDP with bf16", _SOONER,
                 partial(sooner, ours="int8", theirs="ddp-bf16")),
    *_everywhere("SSGD is no slower than DDP", _SAME,
                 partial(no_slower, ours="ssgd", theirs="ddp")),
    *_everywhere("Post-local SGD is no slower than torch's", _SAME,
                 partial(no_slower, ours="post-local", theirs="torch-post-local")),
    *_everywhere("DPSGD with one peer is sooner than decent-dp with one peer", _SOONER,
                 partial(sooner, ours="one-peer", theirs="decent-one-peer")),
    *_everywhere("Streaming DiLoCo is sooner than DDP with PowerSGD", _SOONER,
                 partial(sooner, ours="streaming", theirs="ddp-powersgd")),
    *_everywhere("First of all is one of ours", "least mean seconds to the target", first),
)  # fmt: skip
CLAIMS: Mapping[str, Sequence[Claim[Measured]]] = {"mnist": _MNIST, "text": _TEXT}
"""By task."""
