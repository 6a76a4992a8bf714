"""What experiments/methods.md says of what was measured between hosts, from the tables alone."""

import math
from collections.abc import Iterator
from statistics import fmean, median

from experiments.common import claims
from experiments.common.markdown import markdown
from experiments.common.scale import Scale
from experiments.methods.claims import seconds
from experiments.methods.network import rows
from experiments.methods.network.claims import CLAIMS, megabytes, ranking
from experiments.methods.network.rows import RUNS, STEPS, Measured
from experiments.methods.network.size import MNIST, Size, network_study
from experiments.methods.network.ways import OURS, WAYS, compared

HEAD = """\
## Measured between hosts

{learners} processes in {learners} network namespaces of one machine, each with an interface of that
rate to and from one switch; delays are one way. Ours by the harness over Gloo, beside
DistributedDataParallel with its hooks, torch's PostLocalSGD and decent-dp, in the same processes,
on the same start and batches, data alike. torch wants NCCL for its bf16 hook; Gloo adds bf16, too,
and the hook is called under another name. The models are small, and so are their gradients: where
the network is fast, what a step costs in Python is what is compared.

**Tuning**: equally many rates for every way, on seeds that are not judged, by validation loss;
{seeds} seeds are judged. All ways are of plain SGD. Rounds have H = {every}, post-local SGD of both
begins with one of averaged gradients, PowerSGD has rank 1 from the third step on, Streaming DiLoCo
two fragments with the longest delay. **The target** is relative to the test loss that DDP's best
trial ended with.

**Seconds and bytes to the target** are those of the steps there. What is computed does not depend
on the network, so whole runs are made once, at 1000 Mbit/s, and on each network a first round and
at least {rounds} more are timed: the slowest learner, in the faster of up to {turns} turns. Bytes
are what a learner's interface sent, headers and acknowledgements included, on the first network of
the table.

A way that does not come to the target in every run is later than one that does ("never"): such a
verdict is of its loss, not of the network. Intervals are over seeds. What a step takes is one
number for each way and network, in no interval: the spread of turns is told below.

Delays are made by a process, which takes a core from the learners.

`python -m experiments.methods --parts network` (root, tc, decent-dp) takes about ten minutes for
each task, and measures what is not in the tables: [runs](results/{runs}), [steps](results/{steps}).
"""
TASKS = {
    "mnist": """\
### Images: the task above

The perceptron and images of the task above, batches of {batch}, {steps} steps, {trials} rates,
tried on seed {tuning}. The target is {slack:.0%} of DDP's loss, looked at every {monitor} steps. Of
10, 100 and 1000 Mbit/s with 0, 20 and 50 ms, 50 ms are left out for time at 10 and at 1000.
""",
    "text": """\
### Text: a small language model

A causal transformer (`--model transformer`, one block of width 64: 70,075 weights) on windows of 64
bytes of the Brown corpus's press (`--dataset brown-bytes`), batches of {batch} windows, {steps}
steps, rates {rates}, tried on seeds {tuning}: the worst of a rate's losses counts. (A first series
had a rate of 2. It was the best of DDP, SSGD and both post-local SGDs on the tuning seeds, lost
judged ones, and they "never" came to the target: verdicts of luck. DPSGD did not survive it. So all
rates end at 1 now, and all judged runs were made anew.) The target is {slack:.0%} of DDP's loss in
nats a byte, the mean over those seeds, looked at every {monitor} steps. The frequencies of single
bytes have a test loss of 2.967: what is measured is how soon a beginning is made, no more. Some
ways and networks are left out for time.
""",
}


def parts(scale: Scale) -> list[str]:
    """The section's parts; without rows, its claims are not run yet."""
    sizes = network_study(scale)
    head = markdown(["is it so that ...?", "criterion", "measured", "holds"], [])
    found = [_head(sizes[MNIST.name])]
    for name, size in sizes.items():
        made = rows.read(scale.results, size)
        found += [_task(size), claims.table(head, CLAIMS[name], made), *_found(made)]
    return found


def _head(size: Size) -> str:
    task = size.task
    return HEAD.format(
        learners=task.learners,
        seeds=len(task.seeds),
        every=task.every,
        rounds=size.least_rounds,
        turns=size.turns,
        runs=RUNS,
        steps=STEPS,
    )


def _task(size: Size) -> str:
    task = size.task
    return TASKS[size.name].format(
        batch=task.batch,
        steps=task.steps,
        trials=len(task.rates),
        rates=", ".join(f"{lr:g}" for lr in task.rates),
        slack=task.slack,
        tuning=" and ".join(str(seed) for seed in size.tuning_seeds),
        monitor=task.monitor_every,
    )


def _found(made: Measured) -> Iterator[str]:
    ways = [way for way in compared(made.size) if made.judged(way)]
    if not ways:
        return
    head = ["way", "rate", "test loss", "steps to the target", "MB to the target"]
    head += [f"s, {network}" for network in made.size.networks]
    yield markdown(head, (_line(made, way) for way in ways))
    lines = (*_losing(made), *_overlap(made), *_spread(made))
    yield "".join(f"- {line}\n" for line in lines)


def _line(made: Measured, way: str) -> list[str]:
    runs = made.judged(way)
    rates = [trial.lr for trial in compared(made.size)[way].trials(made.size.task)]
    rate = f"{runs[0].lr:.3g}"
    cells = [
        WAYS[way].label,
        f"**{rate}**" if runs[0].lr in (min(rates), max(rates)) else rate,
        f"{fmean(run.test_loss for run in runs):.3f}",
        _steps(fmean(run.reached for run in runs)),
    ]
    sent = made.megabytes(way)
    cells.append("-" if sent is None else megabytes(rows.mean(sent)))
    for network in made.size.networks:
        found = made.seconds(network, way)
        cells.append("-" if found is None else seconds(rows.mean(found)))
    return cells


def _overlap(made: Measured) -> Iterator[str]:
    """What a step takes with and without overlap, whatever it does to the loss."""
    for network in made.size.networks:
        pair = [made.at(network, way) for way in ("streaming", "diloco")]
        if all(pair):
            streaming, whole = (seconds(each.step) for each in pair if each)
            yield f"{network}: a step takes {streaming} with Streaming DiLoCo, {whole} with DiLoCo."


def _spread(made: Measured) -> Iterator[str]:
    """How far turns of one way on one network are apart, and what the machine was doing."""
    twice = [each.slowest / each.step - 1 for each in made.steps if each.turns > 1]
    loads = [each.load for each in made.steps if not math.isnan(each.load)]
    if twice and loads:
        yield (
            f"{len(twice)} of {len(made.steps)} step times are of two turns, {median(twice):.0%} "
            f"apart in the median and {max(twice):.0%} at most: smaller differences are none. The "
            f"load average, which counts the learners themselves, was {min(loads):.0f} to "
            f"{max(loads):.0f}."
        )


def _steps(value: float) -> str:
    return "never" if math.isnan(value) else f"{value:.0f}"


def _losing(made: Measured) -> Iterator[str]:
    """Who of the others comes to the target before the first of ours, on each network."""
    for network in made.size.networks:
        found = ranking(made, network)
        if found is None:
            continue
        own = next(((value, way) for value, way in found if way in OURS), None)
        if own is None:
            yield f"{network}: none of ours comes to the target in all runs."
            continue
        before = [
            f"{WAYS[way].label} ({own[0] / value:.2g} times)"
            for value, way in found[: found.index(own)]
        ]
        said = f"sooner are {', '.join(before)}" if before else "nothing of the others is sooner"
        yield f"{network}: the first of ours is {WAYS[own[1]].label}, {seconds(own[0])}; {said}."
