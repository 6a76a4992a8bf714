"""Few cases of many choices: any two values of different choices meet in one of them."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations, product


def greedy(offered: Sequence[set[Hashable]]) -> list[int]:
    """Numbers of sets whose union is that of all, each taken for the most that is new in it."""
    missing: set[Hashable] = set().union(*offered)
    chosen: list[int] = []
    most = max(map(len, offered), default=0)
    while missing:
        best = 0
        for number, covered in enumerate(offered):
            new = len(covered & missing)
            if new > best:
                best, found = new, number
            if best == most:  # what a set brings only gets less: no other brings more
                break
        most = best
        missing -= offered[found]
        chosen.append(found)
    return chosen


def covering(*choices: Iterable[Hashable]) -> list[tuple[Hashable, ...]]:
    """An all-pairs covering array, found greedily."""
    cases = list(product(*choices))
    return [cases[k] for k in greedy([set(combinations(enumerate(case), 2)) for case in cases])]
