"""Second half of experiments/time.md: the simulator beside closed forms, SimGrid, measurements."""

from collections.abc import Sequence
from statistics import median

from experiments.common.markdown import markdown
from experiments.time.claims import Simgrid, rest
from experiments.time.rows import Row, of, worst
from experiments.time.size import PARAMETERS

HOSTS = """\
Two to eight network namespaces, each with a learner, on a bridge; MLP 784-200-10, {parameters:,}
parameters, rows of {kilobytes:.0f} kB, batch 32. Rates are the kernel's (tc tbf) on both ends of
every link. **Delays are not**: this kernel has no netem, so a process holds the frames (AF_PACKET)
for 5 or 50 ms one way, on one of the two cores that the learners need, too; and the machine was
shared with others (load average 5 to 17) while this was measured. Frames have 9000 bytes, queues
100 kB or what is under way in a round trip, receivers acknowledge at once, and slow start does not
begin anew after a pause. Our transport is Gloo, which DistributedDataParallel uses, too.

alpha = a + k D and 1 / beta = e r for rate r and delay D; the constants are fitted to DPSGD on the
ring and SSGD with 2 and 4 hosts at 10 and 100 Mbit/s, and a gradient takes what it took in the same
cell. What is fitted was decided after a first series, which showed that it takes both algorithms,
and in which queues of 8 MB, acknowledgements that waited 40 ms and the fault above hid the network;
this is all of the series that began when that was settled. Another was stopped after minutes and
thrown away (the 40 ms), two probes with 2 hosts were timed in between, and the loss of the fit was
made robust before it: only a new series on a quiet machine would be a test.
"""
EXPLAINED = """\
k = 2 is Gloo's: it asks the receiver before it sends, so a row is there after two crossings. What
the errors come from:

- 1000 Mbit/s, and 100 Mbit/s with 8 hosts: the cores. The worst cell moves 10 MB a step, in and out
  of eight processes and of the switch in user space, on two cores that others use, too. Nothing of
  it is in alpha and beta, and all of it makes steps longer than predicted.
- 50 ms: at 100 Mbit/s and above a row is smaller than what is under way in a round trip, and TCP's
  window decides how many round trips it needs: nearly four crossings in place of two.
- All-reduces at 10 Mbit/s with delay are predicted too slow: Gloo sends a piece in several, which
  hides part of the 2(n - 1) latencies.
"""
REAL = """\
`experiments.processes.stragglers`: 16 processes on 2 cores, a gradient is 50 ms of sleep, in units
of which the table counts. The first prediction has no constant and no network. Every run takes 0.1
to 0.5 more, also where nobody is slow: 5 to 25 ms of real gradients and messages of 16 processes
that share two cores. The second prediction adds what the run had more in which nobody was slow. The
runs are of before stragglers were drawn at addresses by learner: other draws of the same
distributions; they were not made again, which takes 20 minutes of a machine that is not quiet.
"""


def closed(rows: Sequence[Row]) -> str:
    """The section: closed forms."""
    found = of(rows, "closed")
    if not found:
        return ""
    lines = []
    for name in dict.fromkeys(row.name for row in found):
        part = of(found, "closed", name=name)
        lines.append([name, str(len(part)), f"{abs(worst(part).error):.1g}"])
    return (
        "### Closed forms\n\nRows of 100 MB, 1, 10 and 100 Gbit/s, n = 2, 16, 1024; "
        "the largest relative "
        "difference:\n\n" + markdown(["", "networks", "difference"], lines)
    )


def by_simgrid(other: Simgrid) -> str:
    """The section: the other simulator."""
    if not other:
        return ""
    lines = [
        [name, how, *(f"{100 * e:+.1f} %" if abs(e) > 1e-9 else "equal" for _, _, _, e in part)]
        for name, how in dict.fromkeys((name, how) for name, how, _, _ in other)
        if (part := [case for case in other if case[:2] == (name, how) and case[2] != 4])
    ]
    return (
        "### SimGrid\n\nFive steps, 1 Gbit/s, 0.1 ms, rows of 10 MB, gradients of "
        "0.1 to 0.2 s; ours "
        "against SimGrid 3.32 (CM02, no TCP corrections), which moves every message by itself:\n\n"
        + markdown(["algorithm", "by", "n = 8", "n = 16"], lines)
        + "\nWhere they differ, rows of two successive steps meet on an interface, "
        "because one learner "
        "is a step ahead: SimGrid has them share it, we count the messages of one step.\n"
    )


def hosts(rows: Sequence[Row]) -> str:
    """The section: steps between network namespaces."""
    found = of(rows, "measured")
    if not found:
        return ""
    constants = {row.name: row.value for row in of(rows, "constants")}
    lines = []
    for name in dict.fromkeys(row.name for row in found):
        for mbits in sorted({row.bandwidth for row in found}):
            cells = []
            for n in sorted({row.n for row in found}):
                part = of(found, "measured", name=name, bandwidth=mbits, n=n)
                cells += [
                    f"{row.reference:.3f} {100 * row.error:+.0f} %"
                    + ("*" if row.how == "fitted" else "")
                    for row in part
                ]
            lines.append([name, f"{mbits / 1e6:g}", *cells])
    places = [f"{n}, {d} ms" for n in sorted({row.n for row in found}) for d in ("0", "5", "50")]
    held = of(found, "measured", how="held out")
    second = []
    for label, part in (
        ("fitted", of(found, "measured", how="fitted")),
        ("held out", held),
        ("held out, 10 Mbit/s", [row for row in held if row.bandwidth < 5e7]),
        ("held out, 100 Mbit/s", [row for row in held if 5e7 < row.bandwidth < 5e8]),
        ("held out, 1000 Mbit/s", [row for row in held if row.bandwidth > 5e8]),
        ("held out, no delay", [row for row in held if not row.latency]),
    ):
        if part:
            middle = median(abs(row.error) for row in part)
            second.append(
                [
                    label,
                    str(len(part)),
                    f"{100 * middle:.1f} %",
                    f"{100 * worst(part).error:+.0f} %",
                ]
            )
    return (
        "### Steps measured between hosts\n\n"
        + HOSTS.format(parameters=PARAMETERS, kilobytes=4 * PARAMETERS / 1e3)
        + f"\nFitted: k = {constants['k']:.2f}, e = {constants['e']:.3f}, "
        f"o = {1e6 * constants['o']:.3g} us, h = {1e9 * constants['h']:.2f} ns a byte, "
        f"f = {1e9 * constants['f']:.2f} ns a byte.\n\n![measured](results/time_measured.png)\n\n"
        + markdown(["cells", "number", "median error", "worst"], second)
        + f"\n{EXPLAINED}"
        + "\nSeconds of a step as measured, and the prediction's error; \\* fitted:\n\n"
        + markdown(["", "Mbit/s", *places], lines)
    )


def real(rows: Sequence[Row]) -> str:
    """The section: stragglers of processes of this machine."""
    found = of(rows, "real")
    if not found:
        return ""
    seconds = {(row.name, row.how): second for row, second in rest(found)}
    lines = []
    for row in found:
        cells = [row.how, row.name, f"{row.reference:.2f}", f"{row.value:.2f}", _percent(row.error)]
        second = seconds.get((row.name, row.how))
        if second is not None:
            cells += [f"{second:.2f}", _percent(second / row.reference - 1)]
        lines.append([*cells, "", ""][:7])
    return (
        "### Stragglers of real processes\n\n"
        + REAL
        + "\n"
        + markdown(["slow", "", "measured", "predicted", "error", "and more", "error"], lines)
    )


def _percent(error: float) -> str:
    return f"{100 * error:+.0f} %"
