"""What the study of time is to show, by criteria on its tables."""

from collections.abc import Callable, Sequence
from statistics import median

from experiments.common.claims import Claim, Verdict
from experiments.time.rows import Row, of, worst

TABLE, MEDIAN, FIG7 = 0.02, 0.03, 0.03
"""Relative errors within which AdaDamp's Table 2, its medians and Fig. 7 count as reproduced."""
EXACT = 1e-12
SIMGRID = 1e-9
HELD_OUT = 0.10
REAL = 0.10
FLAT = 0.10
"""Relative growth of a step from the fewest to the most learners that counts as none."""
UNDISTURBED = "nobody"
"""Runs of real processes in which no learner is slow."""
SLOW = 3.0
"""Factor of the one slow learner."""

Simgrid = Sequence[tuple[str, str, int, float]]
"""Algorithm, by, n, relative difference."""


def within(table: str, error: float) -> Callable[[Sequence[Row], Simgrid], Verdict]:
    """All rows of a table are that near to their reference."""

    def measured(rows: Sequence[Row], simgrid: Simgrid) -> Verdict:
        found = of(rows, table)
        if not found:
            return None
        far = worst(found)
        text = f"{len(found)} numbers, worst {100 * far.error:+.2g} % ({_called(far)})"
        return abs(far.error) <= error, text

    return measured


def understated(rows: Sequence[Row], simgrid: Simgrid) -> Verdict:
    """With a slot for each worker, no run would have taken longer than published."""
    found = of(rows, "adadamp-unlimited", how="high")
    if not found:
        return None
    text = ", ".join(f"{row.name}: {row.value:.1f} for {row.reference:.1f} min" for row in found)
    return all(row.value <= row.reference for row in found), text


def lena_costs(rows: Sequence[Row], simgrid: Simgrid) -> Verdict:
    """LENA's update over LSW's at the fewest and at 64 learners."""
    pairs = {
        n: [of(rows, "lena", name=name, how="ResNet-18", n=n) for name in ("LENA", "LSW")]
        for n in (8, 64)
    }
    if not all(all(pair) for pair in pairs.values()):
        return None
    more = {n: ours[0].value / theirs[0].value - 1 for n, (ours, theirs) in pairs.items()}
    text = ", ".join(f"n = {n}: {100 * value:+.1f} %" for n, value in more.items())
    return 0.05 <= more[8] <= 0.15 and more[64] <= 0.02, text


def simgrid_agrees(rows: Sequence[Row], simgrid: Simgrid) -> Verdict:
    """All cases of the other simulator."""
    if not simgrid:
        return None
    exact = [case for case in simgrid if abs(case[3]) <= SIMGRID]
    far = max(simgrid, key=lambda case: abs(case[3]))
    text = (
        f"{len(exact)} of {len(simgrid)} equal; worst {100 * far[3]:+.1f} % ({far[0]}, {far[1]}, "
    )
    return len(exact) == len(simgrid), text + f"n = {far[2]})"


def hosts_agree(rows: Sequence[Row], simgrid: Simgrid) -> Verdict:
    """Cells that no constant came from."""
    found = of(rows, "measured", how="held out")
    if not found:
        return None
    far = worst(found)
    middle = median(abs(row.error) for row in found)
    text = f"{len(found)} cells, median {100 * middle:.1f} %, worst {100 * far.error:+.0f} % "
    return middle < HELD_OUT, text + f"({_cell(far)})"


def real_runs_agree(rows: Sequence[Row], simgrid: Simgrid) -> Verdict:
    """Sixteen processes of this machine."""
    found = of(rows, "real")
    if not found:
        return None
    far = worst(found)
    middle = median(abs(row.error) for row in found)
    text = f"median {100 * middle:.0f} %, worst {100 * far.error:+.0f} % ({far.name}, {far.how})"
    return middle < REAL, text


def rest(rows: Sequence[Row], table: str) -> list[tuple[Row, float]]:
    """Runs of real processes with a slow learner, and the second prediction of each.

    By that a step takes as much more than the first as one in which nobody is slow.
    """
    found = of(rows, table)
    still = {row.name: row.reference - row.value for row in found if row.how == UNDISTURBED}
    return [(row, row.value + still[row.name]) for row in found if row.how != UNDISTURBED]


def real_runs_agree_but_for_the_rest(rows: Sequence[Row], simgrid: Simgrid) -> Verdict:
    """The same with what the machine itself takes for a step."""
    found = rest(rows, "real-again")
    if not found:
        return None
    errors = [(abs(second / row.reference - 1), row) for row, second in found]
    far, row = max(errors, key=lambda each: each[0])
    text = f"{len(found)} runs, median {100 * median(error for error, _ in errors):.0f} %, "
    return median(error for error, _ in errors) < REAL, text + (
        f"worst {100 * far:.0f} % ({row.name}, {row.how})"
    )


def gossip_does_not_wait_for_all(rows: Sequence[Row], simgrid: Simgrid) -> Verdict:
    """DPSGD on a ring stays as it is with n, SSGD grows."""
    model = "all, 1 + Exp(0.5)"
    lines = {name: of(rows, "stragglers", name=name, how=model) for name in ("DPSGD, ring", "SSGD")}
    if not all(len(line) > 1 for line in lines.values()):
        return None
    growth = {name: line[-1].value / line[0].value - 1 for name, line in lines.items()}
    text = ", ".join(f"{name} {100 * value:+.0f} %" for name, value in growth.items())
    return growth["DPSGD, ring"] <= FLAT < growth["SSGD"], text


def everybody_waits_for_the_slow(rows: Sequence[Row], simgrid: Simgrid) -> Verdict:
    """One learner that is slow for good, at the fewest learners."""
    found = of(rows, "stragglers", how="one, 3 times")
    found = [row for row in found if row.n == found[0].n]
    if len(found) < 2:
        return None
    common = [row.value for row in found if row.name != "AD-PSGD"]
    (alone,) = (row.value for row in found if row.name == "AD-PSGD")
    text = f"n = {found[0].n}: {min(common):.2f} to {max(common):.2f} s, AD-PSGD {alone:.2f} s"
    return min(common) >= 0.98 * SLOW and alone < 1.1, text


def exact_averages_lose(rows: Sequence[Row], simgrid: Simgrid) -> Verdict:
    """Where an all-reduce is as fast as gossip, by a step."""
    found = of(rows, "phase-step")
    if not found:
        return None
    ssgd = [row for row in found if row.name.startswith("SSGD")]
    edge = min((row.bandwidth for row in ssgd), default=float("inf"))
    text = f"{len(ssgd)} of {len(found)} networks, from {edge / 1e9:,.0f} Gbit/s up"
    return all(row.bandwidth > 1e11 for row in ssgd), text


def _called(row: Row) -> str:
    return ", ".join(str(part) for part in (row.name, row.how, row.n or "") if part)


def _cell(row: Row) -> str:
    return (
        f"{row.name}, {row.n} hosts, {row.bandwidth / 1e6:g} Mbit/s, "
        f"{1e3 * row.latency:g} ms one way"
    )


CLAIMS = (
    Claim(
        "AdaDamp, Table 2: minutes of 5 runs on 3 networks",
        f"4 slots: all 15 entries within {100 * TABLE:g} %",
        within("adadamp", TABLE),
    ),
    Claim(
        "AdaDamp: median seconds of an update, 3 networks, 1 to 125 workers",
        f"4 slots: all 21 within {100 * MEDIAN:g} %",
        within("adadamp-median", MEDIAN),
    ),
    Claim(
        "AdaDamp, Fig. 7: seconds of an epoch over samples per worker",
        f"16 slots: all 5 within {100 * FIG7:g} %",
        within("adadamp-fig7", FIG7),
    ),
    Claim(
        "AdaDamp's decentralised times understate what growing batches gain",
        "as many slots as workers, network high: no run above the published minutes",
        understated,
    ),
    Claim(
        "LENA costs about 10 % more per update than LSW at n = 8 and 1 % at n = 64",
        "ResNet-18: 5 to 15 % at n = 8, at most 2 % at n = 64",
        lena_costs,
    ),
    Claim(
        "gossip waits for neighbours alone",
        f"each gradient 1 + Exp(0.5) s: a ring's step grows by at most {100 * FLAT:g} % from the "
        "fewest to the most learners, SSGD's by more",
        gossip_does_not_wait_for_all,
    ),
    Claim(
        "a learner that is slow for good slows every scheme with a step in common, and not AD-PSGD",
        "at the fewest learners: all within 2 % of 3 s or above, AD-PSGD below 1.1 s",
        everybody_waits_for_the_slow,
    ),
    Claim(
        "by seconds per step, an exact average is as fast as gossip on the fastest networks alone",
        "ResNet-50, 0.1 s a gradient: nowhere up to 100 Gbit/s",
        exact_averages_lose,
    ),
    Claim(
        "closed forms of all-reduces and gossip on equal links are exact",
        f"relative difference at most {EXACT:g}",
        within("closed", EXACT),
    ),
    Claim(
        "another simulator of networks says the same",
        f"SimGrid without its TCP corrections: all cases within {SIMGRID:g}",
        simgrid_agrees,
    ),
    Claim(
        "steps between hosts take what is predicted",
        f"cells that no constant came from: median error below {100 * HELD_OUT:g} %",
        hosts_agree,
    ),
    Claim(
        "stragglers of sixteen real processes take what is predicted",
        f"no constant fitted, no network: median error below {100 * REAL:g} %",
        real_runs_agree,
    ),
    Claim(
        "and in a second series, beside what steps take in which nobody is slow",
        f"one constant of each algorithm, from that run: median error of the others below "
        f"{100 * REAL:g} %",
        real_runs_agree_but_for_the_rest,
    ),
)
