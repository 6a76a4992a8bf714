"""Few cases of many choices: any two values of different choices meet in one of them."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations, product


def greedy(offered: Sequence[set[Hashable]], costs: Sequence[float] = ()) -> list[int]:
    """Numbers of sets whose union is that of all, taken for the most new in it for its cost.

    Of those, the dearest first, such are left away again as the others make superfluous.
    """
    costs = costs or [1] * len(offered)
    missing: set[Hashable] = set().union(*offered)
    chosen: list[int] = []
    most = max(
        (len(covered) / cost for covered, cost in zip(offered, costs, strict=True)), default=0
    )
    while missing:
        best = 0.0
        for number, covered in enumerate(offered):
            new = len(covered & missing) / costs[number]
            if new > best:
                best, found = new, number
            if best == most:  # what a set brings only gets less: no other brings more
                break
        most = best
        missing -= offered[found]
        chosen.append(found)
    return _needed(offered, chosen, costs)


def _needed(
    offered: Sequence[set[Hashable]], chosen: list[int], costs: Sequence[float]
) -> list[int]:
    times = Counter(element for number in chosen for element in offered[number])
    kept = list(chosen)
    for number in sorted(chosen, key=lambda number: -costs[number]):
        if all(times[element] > 1 for element in offered[number]):
            kept.remove(number)
            times.subtract(offered[number])
    return kept


def covering(*choices: Iterable[Hashable]) -> list[tuple[Hashable, ...]]:
    """An all-pairs covering array, found greedily."""
    cases = list(product(*choices))
    return [cases[k] for k in greedy([set(combinations(enumerate(case), 2)) for case in cases])]
